"""What several nodes that measure together come to: how far it scales, and what limits it."""
