"""Alerts: one for each change, stored in the result bucket, and one message for each run."""
