"""Rows that several nodes measure together."""
