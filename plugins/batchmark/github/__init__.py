"""Accesses GitHub for action.yml: fetches main's results, and comments on pull requests."""
