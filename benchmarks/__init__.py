"""Benchmarks of Batchmark itself, each run by hand."""
