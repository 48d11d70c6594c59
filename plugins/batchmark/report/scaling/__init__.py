"""Nodes that measure together, as words, curves and tables, and what more of them would do."""
