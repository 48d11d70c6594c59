"""Nodes that work together, and the file system they share."""
