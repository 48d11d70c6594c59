"""Reports changes found in the history, re-runs and alerts."""
