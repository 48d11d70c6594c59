"""From parameters to jobs, one module for each kind of benchmark."""
