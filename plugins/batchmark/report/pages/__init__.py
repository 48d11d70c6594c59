"""Builds the run's page and the pages beside it."""
