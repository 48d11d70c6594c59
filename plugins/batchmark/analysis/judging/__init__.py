"""Whether a difference is one: noise, significance, the verdict."""
