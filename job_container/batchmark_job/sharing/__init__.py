"""Several tasks at once on one device: their total throughput, and each one's slowdown."""
