"""Builds a run's page and other standalone pages."""
