"""Reads and checks users' own workload files, and runs their code."""
