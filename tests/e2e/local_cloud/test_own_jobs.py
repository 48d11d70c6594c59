"""Jobs that know nothing of Batchmark, from plan to collected run, by our operator."""

import httpx
import pytest

from batchmark.aws.job_description import log_location
from batchmark.aws.job_log import marked_lines
from batchmark.orchestration.xcom import FAILURE_XCOM
from batchmark_job.result.document import Device, MeasurementStatus
from tests.builders.installations import target
from tests.builders.watched_jobs import metric, plan
from tests.e2e.local_cloud import operator_runs

METRIC = metric(value="4")
TELLS = f"""
echo "BATCHMARK_JOB end 0 1"
seq 5000
echo '{METRIC}'
echo "BATCHMARK_METRIC speed=5"
"""
FAILS = "echo boom; exit 3"


@pytest.fixture
def run(cloud):
    """Two targets with a queue in common that others may use, too; no wrapper."""
    queue = cloud.create_queue()

    def of(script):
        definition = cloud.define(["sh", "-c", script], memory=64)
        return target("cuda", job_queue=queue, on_demand_queue=None, job_definition=definition)

    targets = {"tells": of(TELLS), "fails": of(FAILS)}
    jobs = [
        operator_runs.job(name, as_it_is(each["job_definition"])) for name, each in targets.items()
    ]
    return operator_runs.run(cloud, targets, jobs)


def as_it_is(definition):
    """A job with its definition's own command, without a wrapper."""
    return plan(job_definition=definition, command=(), shell=False, axis="size", size=64)


def test_own_jobs_of_a_queue_that_others_use_leave_documents_that_are_collected(cloud, run):
    tells, fails = run.xcoms
    assert FAILURE_XCOM not in tells, tells[FAILURE_XCOM]
    assert "is FAILED: exit code 3" in fails[FAILURE_XCOM]
    page = httpx.get(fails["_link_JobLogLink"])
    assert page.text == f"Job {fails['job_id']} is FAILED, attempt 1\nboom\n"
    assert run.collected.lost == ()
    whole, speed = run.collected.jobs[0].document.measurements
    assert whole.parameters == {"size": 64}
    assert whole.status is MeasurementStatus.MEASURED
    assert speed.samples_seconds == (0.25,)
    document = run.collected.jobs[0].document
    assert (document.own_job.wrapped, document.own_job.exit_code) == (False, 0)
    bad = [(line.text, line.log_line) for line in document.own_job.bad_lines]
    assert bad == [("speed=5", 5003)], "by its number in the log"
    assert (document.actual_device, document.environment.instance_type) == (Device.CPU, None)
    (failed,) = run.collected.jobs[1].document.measurements
    assert (failed.status, failed.reason) == (
        MeasurementStatus.FAILED,
        "exit code 3 (the command's own error)",
    )
    lines = marked_lines(cloud.client("logs"), log_location(cloud.describe(tells["job_id"])))
    assert [line.text.split()[1] for line in lines] == ["end", '{"metric":', "speed=5"]
