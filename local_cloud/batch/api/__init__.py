"""Batch's API: its responses to calls, and the events that it sends."""
