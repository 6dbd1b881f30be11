"""Finding rare orders: kernel, strategies, search, shrinking, replay, marks, campaigns."""
