"""Own jobs: found, sent to Batch, and turned into result documents."""
