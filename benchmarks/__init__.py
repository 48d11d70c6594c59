"""Measurements of Batchmark itself, side by side, each run by hand."""
