"""Hooks, one AWS service per file."""
