"""Own jobs: whole jobs and their metrics on all their targets."""
