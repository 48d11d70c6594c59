"""FSx for Lustre: file systems with their life cycle, backed by local folders."""
