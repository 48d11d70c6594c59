"""Shared code: records, errors, names, configuration, prices and number formatting."""
