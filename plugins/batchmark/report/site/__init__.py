"""Pages rendered on request: runs, trends, comparisons, alerts, costs."""
