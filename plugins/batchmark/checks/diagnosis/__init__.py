"""Diagnoses why a Batch job does not start, with one module per group of questions."""
