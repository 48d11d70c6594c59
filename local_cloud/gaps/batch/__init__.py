"""Batch without jobs: keeps fields of environments, queues and definitions that moto drops."""
