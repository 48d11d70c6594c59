"""Diagnoses why a Batch job does not start; one module per group of questions."""
