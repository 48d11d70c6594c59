"""Jobs from their queue to their end: order, dependencies, retries, timeouts, stops, lists."""

import itertools

import pytest

from tests.waiting import wait_for

STATUSES = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED", "FAILED")


def test_a_job_waits_for_those_it_depends_on_and_for_whole_arrays(cloud, gate):
    script = f"[ $AWS_BATCH_JOB_ARRAY_INDEX = 0 ] || {{ {gate.script}; }}"
    array = cloud.shell(script, arrayProperties={"size": 2})
    second = cloud.shell("true")
    third = cloud.shell("true", dependsOn=[{"jobId": array}, {"jobId": second}])
    for each in (f"{array}:0", second):
        cloud.finish(each)
    assert cloud.describe(third)["status"] == "PENDING"
    gate.open()
    job = cloud.finish(third)
    assert job["status"] == "SUCCEEDED"
    assert job["startedAt"] >= cloud.describe(array)["stoppedAt"]
    assert job["dependsOn"] == [{"jobId": array}, {"jobId": second}]


def test_a_failure_fails_the_whole_chain(cloud, gate):
    first = cloud.shell(f"{gate.script}; exit 1")
    second = cloud.shell("true", dependsOn=[{"jobId": first}])
    third = cloud.shell("true", dependsOn=[{"jobId": second}])
    gate.open()
    for job_id in (second, third):
        job = cloud.finish(job_id)
        assert (job["status"], job["statusReason"]) == ("FAILED", "Dependent Job failed")
        assert job["attempts"] == []
    late = cloud.finish(cloud.shell("true", dependsOn=[{"jobId": first}]))
    assert late["statusReason"] == "Dependent Job failed"


def test_array_job_fails_with_a_child_after_all_have_ended(cloud, gate):
    script = f"[ $AWS_BATCH_JOB_ARRAY_INDEX = 1 ] && exit 4; {gate.script}"
    parent = cloud.shell(script, arrayProperties={"size": 2})
    cloud.finish(f"{parent}:1")
    job = cloud.describe(parent)
    assert job["status"] == "PENDING"
    assert job["arrayProperties"]["statusSummary"]["FAILED"] == 1
    gate.open()
    job = cloud.finish(parent)
    assert (job["status"], job["statusReason"]) == ("FAILED", "Array Child Job failed")
    ended = {"SUCCEEDED": 1, "FAILED": 1}
    assert job["arrayProperties"]["statusSummary"] == dict.fromkeys(STATUSES, 0) | ended


def test_sequential_children_run_one_after_the_other_and_none_after_a_failure(cloud):
    script = "[ $AWS_BATCH_JOB_ARRAY_INDEX -lt 2 ]"
    parent = cloud.shell(script, arrayProperties={"size": 5}, dependsOn=[{"type": "SEQUENTIAL"}])
    job = cloud.finish(parent)
    assert job["status"] == "FAILED"
    children = [cloud.describe(f"{parent}:{index}") for index in range(5)]
    for earlier, later in itertools.pairwise(children[:3]):
        assert earlier["stoppedAt"] <= later["startedAt"]
    assert [child["statusReason"] for child in children[3:]] == ["Dependent Job failed"] * 2
    assert job["arrayProperties"]["statusSummary"]["SUCCEEDED"] == 2


@pytest.mark.parametrize(("end", "left"), [("terminate_job", 0), ("cancel_job", 4)])
def test_an_array_job_ends_with_its_children_or_with_those_that_have_not_started(
    cloud, gate, end, left
):
    parent = cloud.shell(gate.script, arrayProperties={"size": 6})
    cloud.wait_for(f"{parent}:3", "RUNNING")
    getattr(cloud.batch, end)(jobId=parent, reason="enough")
    if left:
        gate.open()
    job = cloud.finish(parent)
    assert job["status"] == "FAILED"
    summary = job["arrayProperties"]["statusSummary"]
    assert (summary["SUCCEEDED"], summary["FAILED"]) == (left, 6 - left)


def test_the_queue_of_higher_priority_goes_first(cloud, gate):
    blocker = cloud.submit(cloud.define(["sh", "-c", gate.script], vcpus=4))
    cloud.wait_for(blocker, "RUNNING")
    definition = cloud.define(["true"], vcpus=4)
    low = cloud.submit(definition)
    high = cloud.submit(definition, queue=cloud.create_queue(priority=10))
    gate.open()
    assert cloud.finish(high)["stoppedAt"] <= cloud.finish(low)["startedAt"]


def test_the_queues_time_limit_cancels_a_stuck_job(cloud):
    reason = "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"
    action = {"reason": reason, "state": "RUNNABLE", "maxTimeSeconds": 1, "action": "CANCEL"}
    queue = cloud.create_queue(jobStateTimeLimitActions=[action])
    job = cloud.finish(cloud.submit(cloud.define(["true"], gpus=3), queue=queue))
    assert job["status"] == "FAILED"
    assert reason in job["statusReason"]
    assert job["isCancelled"]
    assert job["stoppedAt"] - job["createdAt"] >= 1000


def test_a_hundred_jobs_at_once(cloud):
    definition = cloud.define(["true"], vcpus=0.25, memory=4)
    parent = cloud.submit(definition, arrayProperties={"size": 100})
    assert cloud.finish(parent)["status"] == "SUCCEEDED"


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


@pytest.mark.parametrize(
    ("trap", "code", "last_words"),
    [
        ("trap 'echo cleaned; exit 0' TERM", 0, ["cleaned"]),
        ("trap '' TERM", 137, []),  # is killed
        ("true", 143, []),
    ],
)
def test_terminate_gives_the_job_time_to_clean_up(cloud, trap, code, last_words):
    script = f"{trap}; echo ready; while :; do sleep 0.05; done"
    job_id = cloud.shell(script, retryStrategy={"attempts": 3})
    running = cloud.wait_for(job_id, "RUNNING")
    wait_for(lambda: cloud.lines(running), "log lines")
    cloud.batch.terminate_job(jobId=job_id, reason="stop")
    job = cloud.finish(job_id)
    # A terminated job is FAILED, whatever its exit code, and not tried again.
    assert (job["status"], job["container"]["exitCode"]) == ("FAILED", code)
    assert (job["statusReason"], job["isTerminated"], len(job["attempts"])) == ("stop", True, 1)
    assert cloud.lines(job) == ["ready", *last_words]


def test_cancel_and_terminate_before_the_start(cloud, gate):
    blocker = cloud.submit(cloud.define(["sh", "-c", gate.script], vcpus=4))
    cloud.wait_for(blocker, "RUNNING")
    cancelled, terminated = cloud.shell("true"), cloud.shell("true")
    dependent = cloud.shell("true", dependsOn=[{"jobId": blocker}])
    assert cloud.describe(cancelled)["status"] == "RUNNABLE"
    assert cloud.describe(dependent)["status"] == "PENDING"
    cloud.batch.cancel_job(jobId=cancelled, reason="changed my mind")
    cloud.batch.terminate_job(jobId=terminated, reason="changed it again")
    cloud.batch.cancel_job(jobId=dependent, reason="and again")

    job = cloud.describe(cancelled)
    assert (job["status"], job["statusReason"]) == ("FAILED", "changed my mind")
    assert (job["isCancelled"], job["attempts"]) == (True, [])
    job = cloud.describe(terminated)
    assert (job["status"], job["statusReason"]) == ("FAILED", "changed it again")
    assert cloud.describe(dependent)["statusReason"] == "and again"


def test_a_running_job_is_not_cancelled_and_a_finished_one_not_terminated(cloud, gate):
    job_id = cloud.shell(gate.script)
    cloud.wait_for(job_id, "RUNNING")
    cloud.batch.cancel_job(jobId=job_id, reason="too late")
    assert cloud.describe(job_id)["status"] == "RUNNING"
    gate.open()
    job = cloud.finish(job_id)
    assert job["status"] == "SUCCEEDED"
    assert not job["isCancelled"]
    for each in (job_id, "no-such-job"):
        cloud.batch.terminate_job(jobId=each, reason="too late, too")
    assert cloud.describe(job_id) == job


def test_deleting_a_queue_ends_its_jobs(cloud, gate):
    queue = cloud.create_queue()
    job_id = cloud.shell(gate.script, queue=queue)
    cloud.wait_for(job_id, "RUNNING")
    cloud.batch.update_job_queue(jobQueue=queue, state="DISABLED")
    cloud.batch.delete_job_queue(jobQueue=queue)
    job = cloud.finish(job_id)
    assert (job["status"], job["statusReason"]) == ("FAILED", "The job queue was deleted")


def test_jobs_are_listed_by_status_and_by_filter_newest_first(cloud, gate):
    queue = cloud.create_queue()

    def listed(**fields):
        jobs = cloud.batch.list_jobs(jobQueue=queue, **fields)["jobSummaryList"]
        return [job["jobName"] for job in jobs]

    def found(name, *values):
        return listed(filters=[{"name": name, "values": list(values)}])

    running = cloud.shell(gate.script, queue=queue, jobName="beta-1")
    cloud.wait_for(running, "RUNNING")
    failed = cloud.shell("exit 2", queue=queue, jobName="alpha-1")
    cloud.finish(failed)
    array = cloud.shell("true", queue=queue, jobName="alpha-2", arrayProperties={"size": 2})
    cloud.finish(array)
    assert listed() == ["beta-1"]
    assert listed(jobStatus="FAILED") == ["alpha-1"]
    assert listed(jobStatus="SUCCEEDED") == ["alpha-2"], "without the array's children"
    (summary,) = cloud.batch.list_jobs(jobQueue=queue, jobStatus="FAILED")["jobSummaryList"]
    assert summary["container"] == {"exitCode": 2}
    assert summary["statusReason"] == "Essential container in task exited"
    assert found("JOB_NAME", "ALPHA-1") == ["alpha-1"]
    assert found("JOB_NAME", "alpha*") == ["alpha-2", "alpha-1"]
    first_created = cloud.describe(running)["createdAt"]
    every = ["alpha-2", "alpha-1", "beta-1"]
    assert found("AFTER_CREATED_AT", str(first_created - 1)) == every
