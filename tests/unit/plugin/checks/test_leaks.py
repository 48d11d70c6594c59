"""Which jobs the guard considers leaked, and what else it looks at."""

from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError

from batchmark.checks.leak_records import RunName
from batchmark.core.names import slug
from batchmark.orchestration.tasks.leaks import _run_state
from tests.builders.existing_jobs import queue
from tests.builders.leaks import (
    ARN,
    RUN_ID,
    ago,
    answer_described,
    answer_jobs,
    answer_others,
    file_system,
    finished,
    job,
    looked,
    queue_arn,
    seen,
    summary,
)

ELSEWHERE = f"{ARN}:job-queue/images"
GONE, CLOSED = f"{ARN}:job-queue/gone", f"{ARN}:job-queue/closed"


def own_job(**fields):
    """A job of ours in a queue of others, whose parameters name no run."""
    tags = job()["tags"] | {"batchmark:run-id": RUN_ID, "batchmark:target": "old"}
    named = {"jobId": "j-9", "jobName": "lab-old-job-resize-1-0123456789-g0"}
    return job(jobQueue=ELSEWHERE, parameters={"size": "1"}, tags=tags, **named) | fields


def test_in_queues_of_others_our_jobs_are_judged_as_any_and_nothing_of_theirs_is_named(clients):
    theirs, another = own_job(jobId="theirs", tags={}), own_job(jobId="another", tags=FOREIGN)
    over = own_job(jobId="ended", status="SUCCEEDED", stoppedAt=ago(minutes=5))
    answer_jobs(clients)
    clients.refuse("batch", "describe_job_queues", "AccessDeniedException")
    for arn, there in ((GONE, []), (ELSEWHERE, [queue()])):
        asked = {"jobQueues": [arn]}
        clients.answer("batch", "describe_job_queues", {"jobQueues": there}, asked)
    asked = {"jobQueue": ELSEWHERE, "filters": [{"name": "JOB_NAME", "values": ["lab-*"]}]}
    listed = [summary(one) for one in (own_job(), theirs, another, over)]
    clients.answer("batch", "list_jobs", {"jobSummaryList": listed}, asked)
    answer_described(clients, [own_job(), theirs, another])
    answer_others(clients)
    queues = [CLOSED, GONE, ELSEWHERE, queue_arn("g5.xlarge")]
    report, asked = looked(clients, queues=queues)
    (found,) = report.resources
    assert (found.id, found.verdict, found.endable) == ("j-9", "leaked", "jobs")
    assert (found.target, asked) == ("old", [RunName(dag_id=None, run_id=RUN_ID)])
    (unread,) = report.unread
    assert unread.startswith(f"queue {CLOSED}: AccessDeniedException")


LIVE, OVER = "Its run is live.", f"Its run {RUN_ID} is over."
UNKNOWN = "This Airflow has no run {}: the run was deleted or belongs to another Airflow."
ENDING = "Its termination was requested."
NOT_OURS = "It lacks the installation's tag, so it is never touched."
FOREIGN = {"batchmark:installation": "another", "batchmark:run": slug(RUN_ID)}


@pytest.mark.parametrize(
    ("described", "state", "verdict", "reason", "endable"),
    [
        (job(), "live", "in use", LIVE, None),
        (job(minutes=14), "live", "in use", LIVE, None),
        (job(minutes=14), "over", "new", "It is younger than 15 minutes.", None),
        (job(), "over", "leaked", OVER, "jobs"),
        (job("RUNNABLE"), "over", "leaked", OVER, "jobs"),
        (job(), "unknown", "leaked", UNKNOWN.format(RUN_ID), "jobs_of_unknown_runs"),
        (job(isTerminated=True), "over", "ending", ENDING, None),
        (job("RUNNABLE", isCancelled=True), "over", "ending", ENDING, None),
        (job(tags={}, run_id="manual"), "over", "by hand", NOT_OURS, None),
        (job(tags=FOREIGN), "over", "by hand", NOT_OURS, None),
    ],
)
def test_a_job_is_judged_by_run_age_and_tags(clients, described, state, verdict, reason, endable):
    report, _ = seen(clients, state, [described])
    (found,) = report.resources
    assert (found.verdict, found.reason, found.endable) == (verdict, reason, endable)
    assert (found.id, found.target) == ("j-1", "g5.xlarge")


@pytest.mark.parametrize(
    ("tags", "dag_id"),
    [
        ({"batchmark:dag": "gpu_cpu_benchmark"}, "gpu_cpu_benchmark"),
        # As release 0.1 submitted it.
        ({"batchmark:run": "scheduled__2026-11-21T03-00-00-00-00"}, None),
    ],
)
def test_a_run_is_looked_up_by_its_id_and_the_dag_of_its_tag(clients, tags, dag_id):
    _, asked = seen(clients, jobs=[job(tags=job()["tags"] | tags)])
    assert asked == [RunName(dag_id=dag_id, run_id=RUN_ID)]


@pytest.mark.parametrize(
    ("tags", "run_id", "shown"),
    [
        ({"batchmark:run": "scheduled__x"}, "manual", "scheduled__x"),
        ({"batchmark:run": "scheduled__x"}, "another-run", "scheduled__x"),
        ({}, RUN_ID, "(unnamed)"),
    ],
)
def test_a_run_id_that_differs_from_its_tag_is_not_looked_up(clients, tags, run_id, shown):
    ours = {"batchmark:installation": "lab"} | tags
    report, asked = seen(clients, jobs=[job(tags=ours, run_id=run_id)])
    assert asked == []
    assert report.resources[0].endable == "jobs_of_unknown_runs"
    assert report.resources[0].reason == UNKNOWN.format(shown)


def test_finished_jobs_are_not_shown_and_what_can_not_be_listed_is_reported(clients):
    theirs = file_system(installation="another")
    report, _ = seen(clients, jobs=[finished("SUCCEEDED", 50)], file_systems=[theirs])
    assert (report.resources, report.summary, report.alarm()) == ((), "nothing runs", "")
    answer_jobs(clients)
    clients.refuse("ec2", "describe_instances", "UnauthorizedOperation", "not you")
    clients.refuse("fsx", "describe_file_systems", "InternalServerError", "later")
    report, _ = looked(clients)
    instances, file_systems = report.unread
    assert instances.startswith("instances: UnauthorizedOperation: not you (attach the policies of")
    assert file_systems == "file systems: InternalServerError: later"
    clients.refuse("batch", "list_jobs", "AccessDeniedException", "no")
    with pytest.raises(ClientError, match="AccessDeniedException"):
        looked(clients)


@pytest.mark.parametrize(
    ("runs", "dag_id", "state"),
    [
        ({("gpu_cpu_benchmark", "r"): "running"}, None, "live"),
        ({("noise_calibration", "r"): "queued"}, None, "live"),
        ({("noise_calibration", "r"): "failed"}, None, "over"),
        ({("gpu_cpu_benchmark", "other"): "running"}, None, "unknown"),
        ({("gpu_cpu_benchmark", "r"): "success", ("mine", "r"): "running"}, "mine", "live"),
        ({("gpu_cpu_benchmark", "r"): "success"}, "mine", "unknown"),
    ],
)
def test_airflow_is_asked_for_the_runs_state(runs, dag_id, state):
    def get_dr_count(*, dag_id, run_ids, states=None):
        return sum(
            (dag_id, run_id) in runs and (states is None or runs[dag_id, run_id] in states)
            for run_id in run_ids
        )

    ti = SimpleNamespace(get_dr_count=get_dr_count)
    assert _run_state(ti, RunName(dag_id=dag_id, run_id="r")) == state
