"""What an Airflow of tests has in memory: its scheduler imports it once for all tasks, its forks.

So does its DAG processor for all DAGs' files, each of which a fork reads. No test edits what they
import, and all tasks make clients of the same services of AWS.
"""

import functools
import sys

import botocore.loaders

SERVICES = ("batch", "ec2", "logs", "pricing", "s3", "sns", "ssm", "sts")

if "scheduler" in sys.argv:
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
    import batchmark.report.terminal

    botocore.loaders.create_loader = functools.cache(botocore.loaders.create_loader)
    for service in SERVICES:
        boto3.client(service)

if "dag-processor" in sys.argv:
    import batchmark.orchestration.forms
    import batchmark.orchestration.operators.file_system_operators
    import batchmark.orchestration.pods.pods_operator
    import batchmark.orchestration.tasks.alerts
    import batchmark.orchestration.tasks.diagnosis
    import batchmark.orchestration.tasks.environment
    import batchmark.orchestration.tasks.leaks
    import batchmark.orchestration.tasks.own_jobs
    import batchmark.orchestration.tasks.pods
    import batchmark.orchestration.tasks.run
    import batchmark.orchestration.tasks.scaling
    import batchmark.orchestration.tasks.self_test  # noqa: F401
