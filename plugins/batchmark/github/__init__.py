"""Fetches the main branch's results and comments on pull requests, for action.yml."""
