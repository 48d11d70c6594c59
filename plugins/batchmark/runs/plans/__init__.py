"""Plans jobs from parameters, one module per kind of benchmark."""
