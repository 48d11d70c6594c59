"""Prints reports in a terminal."""
