"""What Airflow sees: operator, trigger, tasks, assets, links."""
