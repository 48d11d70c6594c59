"""Exports the history in other tools' formats; one module per format."""
