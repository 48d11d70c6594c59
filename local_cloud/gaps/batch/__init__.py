"""Batch without jobs: what moto drops of environments, queues, policies and definitions."""
