"""Shared code: records, errors, names, configuration, prices, number formatting."""
