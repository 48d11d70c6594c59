"""Own jobs as our operator runs them: submitted, watched to their end, collected."""

import asyncio
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import TaskDeferred

from batchmark.aws.result_bucket import RunStore
from batchmark.core.run import JobLimits
from batchmark.orchestration.operators.batch_operator import BenchmarkJobOperator
from batchmark.runs.collecting import collect_run
from batchmark.runs.plans.planning import all_operator_kwargs
from tests.builders.installations import configured
from tests.builders.watched_jobs import planned

BUCKET, RUN_ID = "own-job-results", "manual__2026-11-26"


def job(target, plan, *, repeat=1, timeout_seconds=60):
    limits = JobLimits(submissions=1, attempts=1, timeout_seconds=timeout_seconds)
    prefix = f"s3://{BUCKET}/raw/run/{target}/job-thumbnails/{repeat}/"
    changes = {"target": target, "limits": limits, "result_prefix": prefix}
    return planned(plan, repeat=repeat).model_copy(update=changes)


@contextmanager
def reaching(cloud):
    """The environment leads to the cloud."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ENDPOINT_URL", cloud.endpoint_url)
        environment.setenv("AWS_ACCESS_KEY_ID", "test")
        environment.setenv("AWS_SECRET_ACCESS_KEY", cloud.secret)
        yield


def run(cloud, targets, jobs):
    """The XComs of each job, and the collected run."""
    cloud.client("s3").create_bucket(Bucket=BUCKET)
    config = configured(bucket=BUCKET, targets=targets, log_group="/aws/batch/job")
    with reaching(cloud):
        xcoms = [follow_operator(each) for each in all_operator_kwargs(config, RUN_ID, jobs)]
        return SimpleNamespace(xcoms=xcoms, collected=collect(cloud, config, jobs, xcoms))


def collect(cloud, config, jobs, xcoms):
    bucket = config.bucket
    return collect_run(
        RunStore(cloud.client("s3"), bucket, RUN_ID),
        cloud.batch,
        cloud.client("logs"),
        run_id=RUN_ID,
        planned=jobs,
        job_ids=[each["job_id"] for each in xcoms],
        config=config,
    )


def follow_operator(arguments, dag_id="own_job_benchmark"):
    """What the task of a job pushes, from its submission to its end."""
    operator = BenchmarkJobOperator(
        task_id="run_benchmark", aws_conn_id=None, poll_interval=1, **arguments
    )
    xcoms = {}
    ti = SimpleNamespace(
        dag_id=dag_id,
        try_number=1,
        max_tries=0,
        xcom_push=lambda key, value: xcoms.update({key: value}),
    )
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute({"ti": ti, "task": operator, "run_id": RUN_ID})
    trigger = deferred.value.trigger

    async def push_xcoms(more):
        xcoms.update(more)

    trigger.push_xcoms = push_xcoms
    trigger.sleep = lambda _: asyncio.sleep(0.1)  # the local cloud lists a job at once

    async def end():
        return [event async for event in trigger.run()]

    asyncio.run(end())
    return xcoms
