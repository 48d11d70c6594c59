"""Worker processes that measure: how they start, what they share, and what they report."""
