"""Batch without jobs: what moto drops of environments, queues and definitions."""
