"""Benchmarks of Batchmark itself; run each by hand."""
