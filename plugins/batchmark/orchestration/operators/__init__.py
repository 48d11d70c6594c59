"""Operators, triggers, and the watches they share."""
