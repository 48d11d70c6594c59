"""How jobs failed."""
