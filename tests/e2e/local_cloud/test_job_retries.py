"""Retries, evaluateOnExit and timeouts."""


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


def test_timeout_sends_sigterm_and_is_not_retried(cloud):
    definition = cloud.define(
        ["sh", "-c", "trap 'echo stopping; exit 5' TERM; while :; do sleep 0.05; done"],
        timeout={"attemptDurationSeconds": 3},
        retryStrategy={"attempts": 3},
    )
    job = cloud.finish(cloud.submit(definition))
    assert job["status"] == "FAILED"
    assert job["statusReason"] == "Job attempt duration exceeded timeout"
    assert job["container"]["exitCode"] == 5
    assert cloud.lines(job) == ["stopping"]
    assert len(job["attempts"]) == 1
    assert job["stoppedAt"] - job["startedAt"] >= 3000


def test_timeout_kills_what_ignores_sigterm(cloud):
    definition = cloud.define(
        ["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"],
        timeout={"attemptDurationSeconds": 3600},  # the submission's wins
    )
    job = cloud.finish(cloud.submit(definition, timeout={"attemptDurationSeconds": 1}))
    assert job["statusReason"] == "Job attempt duration exceeded timeout"
    assert job["container"]["exitCode"] == 137
    assert job["timeout"] == {"attemptDurationSeconds": 1}
