"""Runs job attempts: their containers, as processes or on a Docker engine, and their output."""
