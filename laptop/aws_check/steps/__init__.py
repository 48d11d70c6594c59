"""The steps of a check, grouped by area; each checks one thing and reports what it saw."""
