"""The steps of a check by area; each looks at one thing and reports what it saw."""
