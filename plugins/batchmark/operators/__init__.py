"""Operators, one AWS service per file."""
