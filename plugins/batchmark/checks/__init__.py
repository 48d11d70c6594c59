"""Checks the environment, diagnoses waiting jobs, and finds leaked resources."""
