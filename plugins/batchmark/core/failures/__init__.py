"""Describes how jobs failed."""
