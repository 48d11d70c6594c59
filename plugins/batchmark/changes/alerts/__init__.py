"""Stores regressions as alerts in the result bucket, and sends at most one message per run."""
