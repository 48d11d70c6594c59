"""Clusters of nodes that work together, and their shared file system."""
