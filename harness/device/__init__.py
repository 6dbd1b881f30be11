"""Real bytes on real streams: what a run on the wall clock moves, and when."""
