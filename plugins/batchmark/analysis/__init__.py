"""Pools, compares, judges and prices a run's samples."""
