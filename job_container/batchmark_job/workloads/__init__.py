"""One file per workload."""
