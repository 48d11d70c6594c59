"""Detects changes in series across many runs, flags suspects, and finds likely causes."""
