"""Batch's API: responses to calls, and the events that it sends."""
