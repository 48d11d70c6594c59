"""Answers to calls of AWS Batch, and the events that Batch sends."""
