"""What the guard ends, and what it leaves alone."""

import pytest

from batchmark.checks.leak_records import ENDABLE
from batchmark.checks.leaks import end_leaks
from tests.builders.leaks import file_system, instance, job, seen

LEFT = "Left alone: end_leaks does not include"


def look_at_all(clients, state="over"):
    """Search an account with a leaked job, instance and file system."""
    return seen(clients, state, [job("RUNNABLE")], [instance()], [file_system(run_id="r")])[0]


def test_only_what_may_be_ended_is_ended(clients):
    found = look_at_all(clients)
    clients.answer("batch", "describe_jobs", {"jobs": [job()]}, {"jobs": ["j-1"]})
    reason = "Terminated by Batchmark's leak guard: its Airflow run is over"
    clients.answer("batch", "terminate_job", {}, {"jobId": "j-1", "reason": reason})
    report = end_leaks(found, clients, lambda _: "over", may_end=["jobs"])
    assert [(one.ended, one.action) for one in report.resources] == [
        (True, "Ended."),
        (False, f"{LEFT} instances."),
        (False, f"{LEFT} run_file_systems."),
    ]
    in_use, _ = seen(clients, "live", [job()], [instance()], [file_system(run_id="r")])
    assert end_leaks(in_use, clients, lambda _: "over", may_end=ENDABLE) == in_use


def test_everything_is_ended_if_all_is_allowed(clients):
    found = look_at_all(clients, "unknown")
    clients.answer("batch", "describe_jobs", {"jobs": [job()]})
    clients.answer("batch", "terminate_job", {})
    clients.answer("ec2", "terminate_instances", {}, {"InstanceIds": ["i-1"]})
    asked = {"FileSystemId": "fs-0123456789abcdef0"}
    clients.answer("fsx", "delete_file_system", {}, asked)
    report = end_leaks(found, clients, lambda _: "unknown", may_end=ENDABLE)
    assert all(one.ended for one in report.resources)
    reasons = [one.reason for one in found.resources]
    things = (
        "job j-1 (lab-g5-xlarge-blog-1, RUNNABLE), since 2026-11-21 11:00 UTC: {} Ended.",
        "instance i-1 (g5.xlarge, running), since 2026-11-21 10:00 UTC: {} Ended.",
        "file system fs-0123456789abcdef0 (LUSTRE, 1200 GiB, AVAILABLE), since 2026-11-20 06:00 "
        "UTC: {} Deleted.",
    )
    lines = [line.format(reason) for line, reason in zip(things, reasons, strict=True)]
    assert report.alarm().splitlines() == lines


@pytest.mark.parametrize(
    ("first", "then", "now", "done"),
    [
        ("unknown", "unknown", None, f"{LEFT} jobs_of_unknown_runs."),
        ("over", "live", None, "Left alone: its run is live."),  # it was cleared meanwhile
        ("over", "over", "SUCCEEDED", "It had already ended by itself."),
        ("over", "over", "RUNNING", "Could not be ended: ClientException: busy"),
    ],
)
def test_a_leaked_job_that_is_not_ended_says_why(clients, first, then, now, done):
    found, _ = seen(clients, first, [job()])
    if now:
        clients.answer("batch", "describe_jobs", {"jobs": [job(now)]})
    if now == "RUNNING":
        clients.refuse("batch", "terminate_job", "ClientException", "busy")
    report = end_leaks(found, clients, lambda _: then, may_end=["jobs"])
    assert [(one.ended, one.action) for one in report.resources] == [(now == "SUCCEEDED", done)]
