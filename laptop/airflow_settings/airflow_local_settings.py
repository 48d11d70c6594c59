"""Airflow imports this once; the workers and DAG parsers that it forks have it all by then.

Else each task imports it anew, which takes most of a short task's time. Nothing of ours is here, so
that the next task sees an edited module.
"""

import sys

import airflow.providers.amazon.aws.operators.batch
import airflow.providers.standard.decorators.python

if "triggerer" in sys.argv:
    # It needs these for its first XCom: seconds of work, just when the next job begins to measure.
    import airflow.api_fastapi.execution_api.app
    import airflow.api_fastapi.execution_api.routes
    import airflow.api_fastapi.execution_api.versions  # noqa: F401

__all__: list[str] = []
