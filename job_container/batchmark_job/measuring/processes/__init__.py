"""Processes that measure: starting them, what they share, and what they answer."""
