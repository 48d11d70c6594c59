"""Batchmark's Airflow side: plans, runs, collects, compares and reports benchmarks."""
