"""The DAGs' tasks, with one module per part of a DAG."""
