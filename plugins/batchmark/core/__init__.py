"""Shared by all packages: records, errors, names, configuration, prices, number formatting."""
