"""The serving engine: what hardware it runs on, what its work takes, how large its pools are."""
