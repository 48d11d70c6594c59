"""Runs the system as containers: starts, stops, backs up and restores it."""
