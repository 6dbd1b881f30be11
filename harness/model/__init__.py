"""A small hybrid transformer of exact arithmetic: cached and fresh KV give the same logits."""
