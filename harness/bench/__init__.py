"""What the cache, the world and the kernel cost on this machine: `make bench`."""
