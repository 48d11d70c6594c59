"""What changed against the history, re-runs and alerts."""
