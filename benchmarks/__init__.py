"""Measurements of Batchmark itself, each run by hand."""
