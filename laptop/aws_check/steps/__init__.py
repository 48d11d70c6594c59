"""A check's steps, grouped by area; each checks one thing and reports what it saw."""
