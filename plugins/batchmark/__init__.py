"""Batchmark's Airflow side: plan, run, collect, compare, report."""
