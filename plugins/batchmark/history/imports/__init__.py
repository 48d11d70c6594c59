"""Imports other tools' results as rows of the suite `imported`; one module per format."""
