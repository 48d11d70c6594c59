"""Runs job attempts as processes or as Docker containers, and logs their output."""
