"""A soak: traffic through a cache for as long as asked, watched all along, with a report."""
