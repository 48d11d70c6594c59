"""Decides whether a difference is real: noise, significance, verdict."""
