"""Runs the user's own jobs on this machine."""
