"""Exports the history in other tools' formats, with one module per format."""
