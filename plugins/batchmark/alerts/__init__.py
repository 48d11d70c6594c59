"""Alerts: one for each change, kept in the result bucket, and one message for each run."""
