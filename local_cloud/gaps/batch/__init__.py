"""Batch without jobs: fills in what moto drops of environments, queues and definitions."""
