"""Pages that are drawn when somebody asks for them: runs, trends, comparisons, alerts, costs."""
