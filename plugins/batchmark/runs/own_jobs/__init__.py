"""Users' own jobs: discovery, submission to Batch, and conversion to result documents."""
