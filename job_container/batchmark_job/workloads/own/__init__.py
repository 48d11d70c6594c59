"""Reads and checks the files of users' own workloads, and runs their code."""
