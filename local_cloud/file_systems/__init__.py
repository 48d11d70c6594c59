"""FSx for Lustre: file systems with their life cycle, and folders that stand for them."""
