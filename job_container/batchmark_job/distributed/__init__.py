"""Measures rows on several nodes together."""
