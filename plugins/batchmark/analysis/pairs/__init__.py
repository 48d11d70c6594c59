"""A GPU target against a CPU target: rows, whole jobs, crossovers, whether it pays off."""
