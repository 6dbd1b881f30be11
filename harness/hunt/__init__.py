"""The hunt: small worlds around a cache, searched for the rare order that breaks it."""
