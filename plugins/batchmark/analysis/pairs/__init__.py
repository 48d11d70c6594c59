"""Compares GPU with CPU targets: rows, whole jobs, crossovers, and whether the GPU pays off."""
