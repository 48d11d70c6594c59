"""Imports libraries when Airflow starts, before it forks the processes that use them.

Otherwise each task would import these libraries again, which takes most of a short task's time. Our
own modules are not imported here, so that edits take effect with the next task.
"""

import sys

import airflow.providers.amazon.aws.operators.batch
import airflow.providers.standard.decorators.python

if "triggerer" in sys.argv:
    # Needed for the first XCom: seconds of work just when the next job starts to measure.
    import airflow.api_fastapi.execution_api.app
    import airflow.api_fastapi.execution_api.routes
    import airflow.api_fastapi.execution_api.versions  # noqa: F401

if {"api-server", "triggerer"}.intersection(sys.argv):
    # All that speak this API are of one installation, so of its newest version. Routes of the
    # older ones took both 2 s of processor time, just when the first jobs begin to measure.
    from airflow.api_fastapi.execution_api import routes, versions
    from cadwyn import HeadVersion, Version, VersionBundle
    from cadwyn.route_generation import _DELETED_ROUTE_TAG

    served = routes.execution_api_router.routes
    served[:] = [route for route in served if _DELETED_ROUTE_TAG not in getattr(route, "tags", ())]
    versions.bundle = VersionBundle(HeadVersion(), Version(versions.bundle.versions[0].value))

if "scheduler" in sys.argv:
    # Its forks run the tasks: these imports took a third of their CPU time.
    import altair  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import scipy.optimize
    import scipy.stats  # noqa: F401

__all__: list[str] = []
