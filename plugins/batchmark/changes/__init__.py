"""Detects changes in series over many runs, and finds suspects and causes."""
