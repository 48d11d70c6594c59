"""Retries, evaluateOnExit and timeouts."""

import pytest


def test_retried_until_it_succeeds(cloud):
    """As often as the submission says, which counts instead of the definition."""
    attempt = "$AWS_BATCH_JOB_ATTEMPT"
    script = f"echo attempt {attempt}; [ {attempt} = 3 ] || exit {attempt}"
    definition = cloud.define(["sh", "-c", script], retryStrategy={"attempts": 1})
    job = cloud.finish(cloud.submit(definition, retryStrategy={"attempts": 5}))
    assert job["status"] == "SUCCEEDED"
    assert [attempt["container"]["exitCode"] for attempt in job["attempts"]] == [1, 2, 0]
    assert cloud.lines(job) == ["attempt 3"]
    streams = {attempt["container"]["logStreamName"] for attempt in job["attempts"]}
    assert len(streams) == 3
    assert job["retryStrategy"]["attempts"] == 5
    assert job["startedAt"] == job["attempts"][-1]["startedAt"]


A_SECOND, AN_HOUR = {"attemptDurationSeconds": 1}, {"attemptDurationSeconds": 3600}


@pytest.mark.parametrize(
    ("defined", "submitted", "trap", "code", "last_words"),
    [
        (A_SECOND, {}, "echo stopping; exit 5", 5, ["stopping"]),
        (AN_HOUR, {"timeout": A_SECOND}, "", 137, []),
    ],
)
def test_a_timeout_sends_sigterm_kills_what_ignores_it_and_is_not_retried(
    cloud, defined, submitted, trap, code, last_words
):
    command = ["sh", "-c", f"trap '{trap}' TERM; while :; do sleep 0.05; done"]
    definition = cloud.define(command, timeout=defined, retryStrategy={"attempts": 3})
    job = cloud.finish(cloud.submit(definition, **submitted))
    assert (job["status"], len(job["attempts"])) == ("FAILED", 1)
    assert job["statusReason"] == "Job attempt duration exceeded timeout"
    assert job["container"]["exitCode"] == code
    assert cloud.lines(job) == last_words
    assert job["timeout"] == A_SECOND
    assert job["stoppedAt"] - job["startedAt"] >= 1000
