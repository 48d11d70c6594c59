"""Tasks that share a device, as words, curves and tables."""
