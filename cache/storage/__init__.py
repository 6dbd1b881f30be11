"""Storage (L3): pages kept outside this process; one file for each backend."""
