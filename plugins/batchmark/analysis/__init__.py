"""Pools, compares, judges and prices the samples of one run."""
