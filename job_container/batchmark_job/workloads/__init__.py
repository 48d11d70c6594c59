"""One file per workload, and the user's own."""
