"""Takes samples and computes their statistics."""
