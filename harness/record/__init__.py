"""What a run writes down: its directory, its rows, its histograms, its summary."""
