"""Diagnoses why a Batch job isn't starting, with one module per group of questions."""
