"""Renders the pages inside Airflow on request: runs, trends, comparisons, alerts and costs."""
