from datetime import UTC, datetime

import pytest

from batchmark.job_description import (
    LogLocation,
    all_seconds,
    failure_message,
    log_location,
    log_url,
    moment,
)


def job(**container):
    return {
        "jobId": "1234",
        "jobName": "batchmark-g5-xlarge-smoke-1",
        "status": "FAILED",
        "statusReason": "Essential container in task exited",
        "attempts": [{}, {}],
        "startedAt": 1_795_222_800_500,
        "container": container,
    }


LOGGED = {
    "logStreamName": "g5.xlarge/default/abc",
    "logConfiguration": {"options": {"awslogs-group": "/aws/batch/batchmark"}},
}


def test_a_failure_says_code_reason_attempts_and_the_last_lines():
    text = failure_message(job(exitCode=3, **LOGGED), ["reading input", "boom"])
    first, *rest = text.splitlines()
    assert "exit code 3" in first
    assert "Essential container in task exited" in first
    assert "attempts: 2" in first
    assert rest == [
        "Last 2 lines of log stream g5.xlarge/default/abc of /aws/batch/batchmark:",
        "reading input",
        "boom",
    ]


def test_a_job_that_never_started_says_so():
    never = job() | {"attempts": [], "statusReason": "Job cancelled"}
    text = failure_message(never, [])
    assert "no exit code" in text
    assert "It has no log" in text


def test_an_empty_log_is_told_from_no_log():
    assert "is empty" in failure_message(job(exitCode=1, **LOGGED), [])


def test_the_container_reason_is_kept():
    text = failure_message(job(reason="CannotPullContainerError: not found"), [])
    assert "CannotPullContainerError" in text


def test_log_group_defaults_to_batchs_own():
    assert log_location(job(logStreamName="s")) == LogLocation("/aws/batch/job", "s")
    assert log_location(job()) is None


def test_console_links_escape_twice():
    url = log_url(LogLocation("/aws/batch/x", "a/b"), "eu-west-1")
    assert url.endswith("log-group/$252Faws$252Fbatch$252Fx/log-events/a$252Fb")


def test_timestamps_are_milliseconds():
    assert moment(job(), "startedAt") == datetime(2026, 11, 21, 1, 0, 0, 500_000, tzinfo=UTC)


RAN = {"startedAt": 1_000, "stoppedAt": 61_500}
NEVER_RAN = {"statusReason": "Host EC2 (instance i-0f) terminated."}


@pytest.mark.parametrize(
    ("attempts", "seconds"),
    [
        ([], 0.0),
        ([NEVER_RAN], 0.0),
        ([RAN, NEVER_RAN, RAN], 121.0),
        ([RAN, {"startedAt": 62_000}], None),
    ],
)
def test_the_time_of_all_attempts_of_a_finished_job(attempts, seconds):
    for status in ("SUCCEEDED", "FAILED"):
        assert all_seconds(job() | {"status": status, "attempts": attempts}) == seconds


def test_before_a_jobs_end_its_time_is_not_known():
    assert all_seconds(job() | {"status": "RUNNING", "attempts": [RAN]}) is None
    assert all_seconds(None) is None
