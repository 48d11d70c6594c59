"""Presents results on pages, in terminals and in messages."""
