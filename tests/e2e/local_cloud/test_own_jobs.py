"""Jobs that know nothing of Batchmark, from plan to collected run, by our operator."""

import asyncio
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import TaskDeferred

from batchmark.aws.job_description import log_location
from batchmark.aws.job_log import marked_lines
from batchmark.aws.result_bucket import RunStore
from batchmark.core.run import JobLimits
from batchmark.orchestration.operators.batch_operator import BenchmarkJobOperator
from batchmark.orchestration.xcom import FAILURE_XCOM
from batchmark.runs.collecting import collect_run
from batchmark.runs.plans.planning import all_operator_kwargs
from batchmark_job.result.document import Device, MeasurementStatus
from tests.builders.installations import configured, target
from tests.builders.watched_jobs import metric, plan, planned

BUCKET, RUN_ID = "own-job-results", "manual__2026-11-26"
METRIC = metric(value="4")
TELLS = f"""
echo "BATCHMARK_JOB end 0 1"
seq 5000
echo '{METRIC}'
echo "BATCHMARK_METRIC speed=5"
"""
FAILS = "exit 3"
LIMITS = JobLimits(submissions=1, attempts=1, timeout_seconds=60)


@pytest.fixture(scope="module")
def config(cloud):
    """Two targets with a queue in common that others may use, too."""
    cloud.client("s3").create_bucket(Bucket=BUCKET)
    queue = cloud.create_queue()

    def of(script):
        definition = cloud.define(["sh", "-c", script], memory=64)
        return target("cuda", job_queue=queue, on_demand_queue=None, job_definition=definition)

    targets = {"tells": of(TELLS), "fails": of(FAILS)}
    return configured(bucket=BUCKET, targets=targets, log_group="/aws/batch/job")


@pytest.fixture
def run(cloud, config, monkeypatch):
    """The XComs of a job of each target, and the collected run."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", cloud.endpoint_url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", cloud.secret)
    jobs = [
        planned(as_it_is(found.job_definition)).model_copy(
            update={
                "target": name,
                "limits": LIMITS,
                "result_prefix": f"s3://{BUCKET}/raw/run/{name}/job-thumbnails/1/",
            }
        )
        for name, found in config.targets.items()
    ]
    xcoms = [followed(arguments) for arguments in all_operator_kwargs(config, RUN_ID, jobs)]
    store = RunStore(cloud.client("s3"), BUCKET, RUN_ID)
    collected = collect_run(
        store,
        cloud.batch,
        cloud.client("logs"),
        run_id=RUN_ID,
        planned=jobs,
        job_ids=[each["job_id"] for each in xcoms],
        config=config,
    )
    return SimpleNamespace(xcoms=xcoms, collected=collected)


def as_it_is(definition):
    """A job with its definition's own command, without a wrapper."""
    return plan(job_definition=definition, command=(), shell=False, axis="size", size=64)


def followed(arguments):
    """What the task of a job pushes, from its submission to its end."""
    operator = BenchmarkJobOperator(
        task_id="run_benchmark", aws_conn_id=None, poll_interval=1, **arguments
    )
    xcoms = {}
    ti = SimpleNamespace(
        dag_id="own_job_benchmark",
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

    async def end():
        return [event async for event in trigger.run()]

    asyncio.run(end())
    return xcoms


def test_own_jobs_of_a_queue_that_others_use_leave_documents_that_are_collected(cloud, run):
    tells, fails = run.xcoms
    assert FAILURE_XCOM not in tells, tells[FAILURE_XCOM]
    assert "is FAILED: exit code 3" in fails[FAILURE_XCOM]
    assert run.collected.lost == ()
    whole, speed = run.collected.jobs[0].document.measurements
    assert whole.parameters == {"size": 64}
    assert whole.status is MeasurementStatus.MEASURED
    assert speed.samples_seconds == (0.25,)
    document = run.collected.jobs[0].document
    assert (document.own_job.wrapped, document.own_job.exit_code) == (False, 0)
    assert [bad.text for bad in document.own_job.bad_lines] == ["speed=5"]
    assert (document.actual_device, document.environment.instance_type) == (Device.CPU, None)
    (failed,) = run.collected.jobs[1].document.measurements
    assert (failed.status, failed.reason) == (MeasurementStatus.FAILED, "exit code 3")
    lines = marked_lines(cloud.client("logs"), log_location(cloud.describe(tells["job_id"])))
    assert [line.text.split()[1] for line in lines] == ["end", '{"metric":', "speed=5"]
