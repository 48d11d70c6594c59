"""The laptop's settings, retries that come at once, runs that overlap, and our code in memory."""

import functools
import runpy
import sys
from datetime import timedelta
from pathlib import Path

import botocore.loaders

runpy.run_path(str(Path(__file__).parents[3] / "laptop/airflow_settings/airflow_local_settings.py"))

OVERLAPPING = ("gpu_cpu_benchmark", "own_job_benchmark", "job_comparison")

if "scheduler" in sys.argv:
    # No test edits what tasks import, and all make clients of the same services of AWS.
    import boto3

    import batchmark.orchestration.reruns
    import batchmark.orchestration.run_history
    import batchmark.orchestration.tasks.alerts
    import batchmark.orchestration.tasks.budget
    import batchmark.orchestration.tasks.environment
    import batchmark.orchestration.tasks.leaks
    import batchmark.orchestration.tasks.own_jobs
    import batchmark.orchestration.tasks.regressions
    import batchmark.orchestration.tasks.run
    import batchmark.report.page
    import batchmark.report.terminal  # noqa: F401

    botocore.loaders.create_loader = functools.cache(botocore.loaders.create_loader)
    for service in ("batch", "ec2", "logs", "pricing", "s3", "sns", "ssm", "sts"):
        boto3.client(service)


def task_policy(task):
    task.retry_delay = timedelta(seconds=1)


def dag_policy(dag):
    """Runs overlap here, where nothing depends on their times."""
    if dag.dag_id in OVERLAPPING:
        dag.max_active_runs = 4
