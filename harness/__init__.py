"""Drives the cache with workloads: engine, checking, exploration and reports."""
