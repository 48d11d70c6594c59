"""Attempts of jobs: their containers, as processes or on a Docker engine, and their output."""
