"""Reports on re-runs, alerts, and changes found in the history."""
