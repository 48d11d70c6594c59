"""Calls AWS and parses its responses."""
