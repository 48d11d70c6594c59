"""The whole system on one machine: local cloud, Terraform and Airflow, started together."""
