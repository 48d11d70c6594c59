"""Calls to AWS, and the parsing of its responses."""
