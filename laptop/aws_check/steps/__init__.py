"""What a check does, by area: each step looks at one thing and says what it saw."""
