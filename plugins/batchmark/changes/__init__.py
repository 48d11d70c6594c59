"""Detects changes in series over many runs: levels, suspects and causes."""
