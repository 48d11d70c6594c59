"""Reports changes against the history, re-runs and alerts."""
