"""Several tasks at once on one device: their total throughput, and how each one suffers."""
