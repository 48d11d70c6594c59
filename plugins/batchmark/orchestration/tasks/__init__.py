"""The DAGs' tasks, one module per part of a DAG."""
