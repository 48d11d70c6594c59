"""Own jobs: planned, sent to Batch, and turned into result documents."""
