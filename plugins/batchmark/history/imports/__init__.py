"""Imports other tools' results into the suite `imported`, with one module per format."""
