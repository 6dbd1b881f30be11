"""Requests from traces and from seeded synthetic mixes. Knows no cache."""
