"""Airflow imports this once; the workers and DAG parsers that it forks have it all by then.

Else each task imports it anew, which takes most of a short task's time. Nothing of ours is here, so
that the next task sees an edited module.
"""

import airflow.providers.amazon.aws.operators.batch
import airflow.providers.standard.decorators.python  # noqa: F401

__all__: list[str] = []
