"""Processes that measure: how they are started, what they share and what they answer."""
