"""The paged KV cache: pool, block tables, prefix sharing, eviction, swap and checks. Knows no workload."""
