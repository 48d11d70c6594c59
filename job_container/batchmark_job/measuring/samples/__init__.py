"""Taking samples, and their statistics."""
