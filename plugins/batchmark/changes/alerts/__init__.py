"""Stores an alert in the result bucket for each change, and sends one message per run."""
