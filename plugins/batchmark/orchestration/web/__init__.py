"""The pages inside Airflow: access rights, data and routes."""
