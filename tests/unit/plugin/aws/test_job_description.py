import pytest

from batchmark.aws.job_description import (
    LogLocation,
    all_seconds,
    failure_message,
    is_reclaimed,
    log_location,
    log_url,
    timing,
    waiting_since,
)


def job(**container):
    ended = {"exitCode": 3, "reason": "OutOfMemoryError"}
    return {
        "jobId": "1234",
        "jobName": "batchmark-g5-xlarge-smoke-1",
        "status": "FAILED",
        "statusReason": "Essential container in task exited",
        "attempts": [{}, {"startedAt": 1_795_222_800_500, "container": ended}],
        "startedAt": 1_795_222_800_500,
        "container": container,
    }


LOGGED = {
    "logStreamName": "g5.xlarge/default/abc",
    "logConfiguration": {"options": {"awslogs-group": "/aws/batch/batchmark"}},
}


def test_a_failure_says_code_reason_attempts_and_the_last_lines():
    failed = job(exitCode=3, **LOGGED)
    lost = {"startedAt": 1_795_222_731_000, "stoppedAt": 1_795_222_741_000, "container": {}}
    failed["attempts"].insert(1, lost | {"statusReason": LOST_HOST})
    text = failure_message(failed, ["reading input", "boom"])
    assert text.splitlines() == [
        "Batch job 1234 (batchmark-g5-xlarge-smoke-1) is FAILED: exit code 3 "
        "(the command's own error); status reason: Essential container in task exited",
        "Attempt 1: never started, no exit code, no reason given",
        f"Attempt 2: 2026-11-21 00:58:51 to 00:59:01 UTC, no exit code, {LOST_HOST}",
        "Attempt 3: 2026-11-21 01:00:00 to ? UTC, exit code 3, OutOfMemoryError",
        "Last 2 lines of log stream g5.xlarge/default/abc in log group /aws/batch/batchmark:",
        "reading input",
        "boom",
    ]
    text = failure_message(failed, ["x" * 1_000_000, "boom"])  # a line without an end
    assert len(text) < 3000
    assert text.endswith("xxx\nboom")


SUCCEEDED = {"status": "SUCCEEDED"}
IN_FLUENTD = {"logConfiguration": {"logDriver": "fluentd"}}


@pytest.mark.parametrize(
    ("failed", "problem", "said"),
    [
        (job() | {"attempts": []}, None, "FAILED: no exit code: its container never finished"),
        (job(), None, "\nIt has no log: no attempt was started."),
        (job(exitCode=1, **LOGGED), None, "in log group /aws/batch/batchmark is empty."),
        (job(reason="CannotPullContainerError"), None, "container: CannotPullContainerError"),
        (job() | SUCCEEDED, "it left no document", "1) is SUCCEEDED, but it left no document\n"),
        (
            *(job(logStreamName="s", **IN_FLUENTD), None),
            "\nIts log is not in CloudWatch: its job definition uses the log driver fluentd.",
        ),
    ],
)
def test_what_is_known_without_a_line_of_log(failed, problem, said):
    assert said in failure_message(failed, [], problem)


def test_log_group_defaults_to_batchs_own_and_console_links_escape_twice():
    assert log_location(job(logStreamName="s")) == LogLocation("/aws/batch/job", "s")
    assert log_location(job()) is None
    assert log_location(job(logStreamName="s", **IN_FLUENTD)) is None
    url = log_url(LogLocation("/aws/batch/x", "a/b"), "eu-west-1")
    assert url.endswith("log-group/$252Faws$252Fbatch$252Fx/log-events/a$252Fb")


RAN = {"startedAt": 1_000, "stoppedAt": 61_500}
NEVER_RAN = {"statusReason": "Host EC2 (instance i-0f) terminated."}


@pytest.mark.parametrize(
    ("attempts", "seconds"),
    [
        ([], 0.0),
        ([NEVER_RAN], 0.0),
        ([RAN, NEVER_RAN, RAN], 121.0),
        ([RAN, {"startedAt": 62_000}], None),
        ([RAN, {"startedAt": 62_000, "stoppedAt": 61_000}], None),
        ([RAN, {"startedAt": 62_000, "stoppedAt": 62_000}], None),
        ([RAN, {"stoppedAt": 99_000, "container": {"exitCode": 0}}], None),
    ],
)
def test_the_time_of_all_attempts_of_a_finished_job(attempts, seconds):
    for status in ("SUCCEEDED", "FAILED"):
        assert all_seconds(job() | {"status": status, "attempts": attempts}) == seconds
    unfinished = job() | {"status": "RUNNING", "attempts": attempts}
    assert all_seconds(unfinished) is all_seconds(None) is None


LOST_HOST = "Host EC2 (instance i-0f1e2d3c4b5a69788) terminated."


@pytest.mark.parametrize(
    ("changes", "reclaimed"),
    [
        ({"statusReason": LOST_HOST}, True),
        ({"statusReason": "any", "attempts": [{}, {"statusReason": LOST_HOST}]}, False),
        ({"statusReason": "any", "attempts": [{"statusReason": LOST_HOST}, {}]}, False),
        ({"status": "RUNNABLE", "attempts": [{"statusReason": LOST_HOST}]}, False),
        ({"statusReason": LOST_HOST, "isTerminated": True}, False),
        ({"statusReason": LOST_HOST, "isCancelled": True}, False),
        ({}, False),
    ],
)
def test_only_a_last_attempt_that_lost_its_host_counts_as_reclaimed(changes, reclaimed):
    assert is_reclaimed(job() | changes) is reclaimed


def test_a_wait_counts_from_the_last_stop_and_times_of_what_never_started_are_left_out():
    assert waiting_since({"createdAt": 5000}) == 5.0
    retried = {"createdAt": 5000, "attempts": [{"stoppedAt": 9000}, {"stoppedAt": 7000}, {}]}
    assert waiting_since(retried) == 9.0
    told = timing({"jobId": "1234", "status": "FAILED", "createdAt": 1_795_222_800_500})
    phases = ("until_first_start_seconds", "last_attempt_seconds", "earlier_attempts_seconds")
    assert told == {
        "job_id": "1234",
        "status": "FAILED",
        "created_at": "2026-11-21T01:00:00.500000+00:00",
        "first_seen": {},
        "phases": dict(zip(phases, (None, None, 0), strict=True)),
        "attempts": [],
    }


LAST = {"startedAt": 70_000, "stoppedAt": 100_000}
WRONG = {"startedAt": 2_000, "stoppedAt": 1_000}


@pytest.mark.parametrize(
    ("created_at", "attempts", "until_first", "last", "earlier"),
    [
        (500, [RAN, NEVER_RAN, RAN, LAST], 0.5, 30.0, 121.0),
        (500, [RAN, {"startedAt": 70_000}], 0.5, None, 60.5),
        (3_000, [WRONG, RAN, WRONG], None, None, None),  # times that can't be
    ],
)
def test_the_last_attempts_time_is_told_apart(created_at, attempts, until_first, last, earlier):
    phases = timing(job() | {"createdAt": created_at, "attempts": attempts})["phases"]
    assert [*phases.values()] == [until_first, last, earlier]
