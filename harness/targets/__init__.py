"""What can be tortured besides the reference cache: released caches, driven by their own code."""
