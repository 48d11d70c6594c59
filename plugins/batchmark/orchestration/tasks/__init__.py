"""The DAGs' tasks, with one module for each part of a DAG."""
