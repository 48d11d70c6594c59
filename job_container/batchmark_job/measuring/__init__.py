"""Measures rows: chooses implementations, takes samples, and computes statistics and ceilings."""
