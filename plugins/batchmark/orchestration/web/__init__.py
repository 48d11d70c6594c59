"""The pages inside Airflow: who may see and change what, where data come from, and the routes."""
