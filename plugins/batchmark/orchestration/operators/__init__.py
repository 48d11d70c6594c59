"""Operators and triggers, and what they watch."""
