"""Batchmark's Airflow code: plans, runs, collects, compares and reports benchmarks."""
