"""Airflow code that plans and runs benchmarks, and collects, compares and reports their results."""
