"""The paged KV cache: tree, pools, locks, transfers and audit. Knows no workload."""
