"""Jobs that share an instance, from plan to collected run, by the real job and our operator."""

import asyncio
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import TaskDeferred

from batchmark.aws.result_bucket import RunStore
from batchmark.orchestration.operators.batch_operator import BenchmarkJobOperator
from batchmark.orchestration.xcom import FAILURE_XCOM
from batchmark.runs.collecting import collect_run
from batchmark.runs.plans.planning import operator_kwargs
from batchmark.runs.plans.sharing_plan import plan_sharing, sharing_options
from batchmark_job.result.document import MeasurementStatus
from batchmark_job.result.sharing import ReplicaOutcome, SharingMode
from tests.builders.installations import configured, target
from tests.paths import ROOT

TARGET, BUCKET = "g4dn.2xlarge-shared", "shared-results"
RUN_ID = "manual__2026-11-26"
REPLICAS = 2
JOB = ["python", "-m", "batchmark_job", "run", "--suite", "Ref::suite", "--dtype", "Ref::dtype"]
JOB += ["--device", "cpu", "--target", TARGET, "--run-id", "Ref::run_id", "--output", "Ref::output"]
CONTAINER = {
    "environment": [
        {"name": "BATCHMARK_SHARING_FOLDER", "value": "/sharing"},
        # Of the tests' own job, which measures for a moment only.
        {"name": "PYTHONPATH", "value": f"{ROOT / 'tests/e2e/quick_job'}:{ROOT / 'job_container'}"},
    ],
    "volumes": [{"name": "sharing", "host": {"sourcePath": "/srv/sharing"}}],
    "mountPoints": [{"sourceVolume": "sharing", "containerPath": "/sharing"}],
}


def follow_operator(arguments):
    """What the task of a job pushes, from its submission to its end."""
    operator = BenchmarkJobOperator(
        task_id="run_benchmark", aws_conn_id=None, poll_interval=1, **arguments
    )
    xcoms = {}
    ti = SimpleNamespace(
        dag_id="gpu_sharing_benchmark",
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


def test_replicas_in_jobs_of_their_own_leave_one_document_that_is_collected(cloud, monkeypatch):
    cloud.client("s3").create_bucket(Bucket=BUCKET)
    environment = cloud.create_compute_environment(
        "shared", 8, instanceTypes=["g4dn.2xlarge"], allocationStrategy="BEST_FIT"
    )
    shared = target(
        "cpu",
        instance_type="g4dn.2xlarge",
        gpus=0,
        job_queue=cloud.create_queue(compute_environment=environment),
        on_demand_queue=None,
        job_definition=cloud.define(JOB, memory=256, container=CONTAINER),
        sharing="time_slicing",
        max_replicas=REPLICAS,
    )
    config = configured(bucket=BUCKET, targets={TARGET: shared}, log_group="/aws/batch/job")
    asked = {"modes": ["time_slicing"], "replicas": [REPLICAS], "task": "matmul", "axes": "size=64"}
    (job,) = plan_sharing(config, sharing_options(asked), run_name=RUN_ID)
    monkeypatch.setenv("AWS_ENDPOINT_URL", cloud.endpoint_url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", cloud.secret)
    xcoms = follow_operator(operator_kwargs(config, RUN_ID, job))
    assert FAILURE_XCOM not in xcoms, xcoms[FAILURE_XCOM]
    store = RunStore(cloud.client("s3"), BUCKET, RUN_ID)
    collected = collect_run(
        store,
        cloud.batch,
        cloud.client("logs"),
        run_id=RUN_ID,
        planned=[job],
        job_ids=[xcoms["job_id"]],
        config=config,
    )
    assert collected.lost == ()
    (found,) = collected.jobs
    assert found.job_id == f"{xcoms['job_id']}:0"
    assert list(store.keys("raw/")) == [found.document_uri.removeprefix(f"s3://{BUCKET}/")]
    (row,) = found.document.measurements
    # On a busy machine a row may not settle.
    assert row.status in {MeasurementStatus.MEASURED, MeasurementStatus.UNSETTLED}, row.reason
    assert row.parameters == {
        "size": 64,
        "mode": "time_slicing",
        "replicas": REPLICAS,
        "form": "jobs",
    }
    assert (row.sharing.mode, row.sharing.form) == (SharingMode.TIME_SLICING, "jobs")
    assert [each.outcome for each in row.sharing.replicas] == [ReplicaOutcome.RAN] * REPLICAS
    children = [cloud.describe(f"{xcoms['job_id']}:{n}") for n in range(REPLICAS)]
    first = min(child["startedAt"] for child in children)
    last = max(child["stoppedAt"] for child in children)
    # Of one instance, not of each child.
    assert found.instance_seconds == pytest.approx((last - first) / 1000)
