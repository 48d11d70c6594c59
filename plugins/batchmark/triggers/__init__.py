"""Triggers, one AWS service per file."""
