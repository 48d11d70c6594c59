"""Benchmarks of Batchmark itself, to be run by hand."""
