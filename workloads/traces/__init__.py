"""One reader for each public trace format; each yields the common requests."""
