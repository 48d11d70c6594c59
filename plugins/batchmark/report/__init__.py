"""Presents results on pages, in the terminal and in messages."""
