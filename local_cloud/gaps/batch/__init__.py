"""Batch without jobs: keeps environment, queue and definition fields that moto drops."""
