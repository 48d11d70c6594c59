"""The whole system on one machine: the local cloud, Terraform and Airflow, started together."""
