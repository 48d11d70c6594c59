"""Workloads: the built-in ones, one file each, and those that users bring."""
