"""Renders pages on request: runs, trends, comparisons, alerts, costs."""
