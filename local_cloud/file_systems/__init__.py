"""FSx for Lustre: file systems with a life cycle, backed by local folders."""
