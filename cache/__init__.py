"""The reference cache: a tiered radix tree that people read to learn how to do it right."""
