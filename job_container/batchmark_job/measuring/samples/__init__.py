"""How a sample is taken, and what many of them say."""
