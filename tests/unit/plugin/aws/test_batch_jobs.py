"""Batch's jobs, also those of several nodes: found by name, submitted once, ended, told."""

import pytest
from botocore.exceptions import EndpointConnectionError, NoCredentialsError, ReadTimeoutError

from batchmark.aws.batch_jobs import (
    REASON_CHARACTERS,
    STEPPED_BACK,
    SUBMIT_AGAIN_AFTER_SECONDS,
    describe_jobs,
    is_passing,
    is_queue_at_work,
    list_jobs,
    submit_job,
    terminate_job,
    was_withdrawn,
    with_installation_tag,
)
from batchmark.aws.batch_targets import environment_names, requirements_of
from batchmark.aws.job_description import failure_message, log_location
from batchmark.aws.job_parts import first_child, most_informative_child
from batchmark.core.names import LONGEST_NAME, full_name, generation_of, is_of_task, names_of_task
from tests.stand_ins.batch import ON_DEMAND_QUEUE, SPOT_QUEUE, FakeBatch, client_error

RUN_ID = "manual__2026-11-21T01:00:00+00:00"
REQUEST = {"jobName": "smoke-0123456789-g0", "jobQueue": SPOT_QUEUE}
LOST = ReadTimeoutError(endpoint_url="https://batch.example")


@pytest.fixture
def batch():
    return FakeBatch()


def test_a_name_holds_run_and_generation_and_what_batch_allows():
    name = full_name("batchmark-g5.xlarge/blog 1", RUN_ID, 2)
    assert name.startswith("batchmark-g5-xlarge-blog-1-")
    assert name.endswith("-g2")
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_")
    assert name != full_name("batchmark-g5.xlarge/blog 1", "another run", 2)
    assert name.startswith(names_of_task("batchmark-g5.xlarge/blog 1", RUN_ID))
    one, other = (full_name("x" * 200 + end, RUN_ID, 10**8) for end in "ab")
    assert one != other
    assert len(one) <= LONGEST_NAME
    prefix = names_of_task("job-g7", RUN_ID)
    endings = ("0", "12", "", "01", "0-debug", "0-g1")
    assert [end for end in endings if is_of_task(f"{prefix}{end}", prefix)] == ["0", "12"]
    assert generation_of(full_name("job-g7", RUN_ID, 12)) == 12
    assert generation_of("submitted by hand") == -1


def test_listed_jobs_are_newest_first_of_all_queues_and_of_an_installation_by_their_tag(batch):
    old = batch.add("smoke-1-g0", "FAILED")
    batch.add("smoke-10-g0", "RUNNING")
    batch.add("SMOKE-1-g0", "RUNNING")
    new = batch.add("smoke-1-g1", "RUNNING", ON_DEMAND_QUEUE)
    found = list_jobs(batch, [SPOT_QUEUE, None, ON_DEMAND_QUEUE, SPOT_QUEUE], "smoke-1-g")
    assert [job["jobId"] for job in found] == [new, old]
    own = [batch.add("any", "RUNNING") for _ in range(101)]
    others = [batch.add("any", "RUNNING", tags={"batchmark:installation": "lab"}) for _ in "ab"]
    listed = [*list_jobs(batch, [SPOT_QUEUE], "any"), {"jobId": "unknown"}]
    assert {job["jobId"] for job in with_installation_tag(batch, listed, "batchmark")} == set(own)
    assert {job["jobId"] for job in with_installation_tag(batch, listed, "lab")} == set(others)
    batch.describe_jobs = None
    assert with_installation_tag(batch, [], "batchmark") == []


@pytest.mark.parametrize("status", ["RUNNING", "STARTING"])
def test_a_queue_is_at_work_while_it_starts_or_runs_a_job_or_a_pending_ones_child(batch, status):
    waiting = batch.add_array("waits", ["RUNNABLE"] * 2)
    assert not is_queue_at_work(batch, [SPOT_QUEUE, ON_DEMAND_QUEUE])
    batch.add("works", status, ON_DEMAND_QUEUE)
    assert is_queue_at_work(batch, [SPOT_QUEUE, ON_DEMAND_QUEUE])
    batch.change_child(waiting, 0, status=status)
    assert is_queue_at_work(batch, [SPOT_QUEUE])
    assert not is_queue_at_work(batch, [SPOT_QUEUE], but=waiting)


def test_arrays_have_their_children_a_hundred_at_a_time_and_the_reason_of_one_not_placed(batch):
    arrays = [batch.add_array("any", ["RUNNING"] * 60) for _ in range(2)]
    plain = batch.add("any", "RUNNING")
    found = describe_jobs(batch, [*arrays, plain])
    assert [len(found[job_id].get("children", ())) for job_id in found] == [60, 60, 0]
    assert describe_jobs(batch, [f"{arrays[0]}:7"]).keys() == {f"{arrays[0]}:7"}
    job_id = batch.add_array("any", ["RUNNING", "FAILED"])
    whole = describe_jobs(batch, [job_id])[job_id]
    assert whole["container"]["logStreamName"] == "stream-0"
    del batch.jobs[f"{job_id}:1"]
    assert describe_jobs(batch, [job_id])[job_id]["status"] == "PENDING"
    job_id = batch.add_array("any", ["RUNNING", "RUNNABLE"])
    reason = "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - too large"
    batch.change_child(job_id, 1, statusReason=reason)
    assert describe_jobs(batch, [job_id])[job_id]["statusReason"] == reason


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        (["RUNNING", "STARTING", "RUNNABLE"], "RUNNABLE"),
        (["RUNNING", "STARTING", "RUNNING"], "STARTING"),
        (["RUNNING", "RUNNING", "SUCCEEDED"], "RUNNING"),
        (["PENDING", "RUNNABLE", "RUNNING"], "PENDING"),
        (["FAILED", "STARTING", "RUNNING"], "STARTING"),
        (["SUCCEEDED", "FAILED", "SUCCEEDED"], "RUNNING"),  # its parent ends in a moment
    ],
)
def test_an_array_job_is_as_far_as_the_child_that_is_furthest_behind(batch, statuses, status):
    job_id = batch.add_array("any", statuses)
    assert describe_jobs(batch, [job_id])[job_id]["status"] == status


def test_listed_arrays_that_have_ended_know_why_and_whether_they_were_withdrawn(batch):
    job_id = batch.add_array("run-1", ["RUNNING"] * 2)
    batch.change_child(job_id, 0, status="FAILED", statusReason="boom")
    assert "children" not in list_jobs(batch, [SPOT_QUEUE], "run-1")[0]
    batch.change_child(job_id, 1, status="SUCCEEDED")
    (listed,) = list_jobs(batch, [SPOT_QUEUE], "run-1")
    assert (listed["jobId"], listed["status"], listed["statusReason"]) == (job_id, "FAILED", "boom")
    assert not was_withdrawn(listed)
    batch.change(job_id, statusReason=STEPPED_BACK)
    assert was_withdrawn(list_jobs(batch, [SPOT_QUEUE], "run-1")[0])


def test_a_throttled_submission_is_sent_again_and_one_whose_answer_got_lost_is_found(batch):
    batch.failures = [client_error("TooManyRequestsException", 429)]
    slept = []
    job_id = submit_job(batch, REQUEST, lambda: None, sleep=slept.append)
    assert list(batch.jobs) == [job_id]
    assert slept == list(SUBMIT_AGAIN_AFTER_SECONDS[:1])
    sent = len(batch.submissions)
    batch.failures, batch.lost_answer = [LOST], True
    other = submit_job(batch, REQUEST, lambda: [*batch.jobs][1], sleep=lambda _: None)
    assert list(batch.jobs) == [job_id, other]
    assert len(batch.submissions) == sent + 1


@pytest.mark.parametrize(
    ("error", "tries"),
    [(client_error("ClientException"), 1), (LOST, len(SUBMIT_AGAIN_AFTER_SECONDS) + 1)],
    ids=["refused", "an outage"],
)
def test_what_batch_refuses_is_not_sent_again_and_an_outage_ends_the_attempts(batch, error, tries):
    batch.failures = [error] * 9
    with pytest.raises(type(error)):
        submit_job(batch, REQUEST, lambda: None, sleep=lambda _: None)
    assert len(batch.submissions) == tries


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (client_error("ThrottlingException"), True),
        (client_error("RequestLimitExceeded"), True),
        (client_error("InternalError", 500), True),
        (client_error("SlowDown", 503), True),
        (client_error("ExpiredToken", 400), True),
        (client_error("ExpiredTokenException", 403), True),
        (LOST, True),
        (EndpointConnectionError(endpoint_url="https://batch.example"), True),
        (client_error("AccessDenied", 403), False),
        (client_error("NoSuchKey", 404), False),
        (NoCredentialsError(), False),
    ],
    ids=str,
)
def test_what_passes_is_told_from_what_stays(error, passes):
    assert is_passing(error) is passes


def test_a_long_reason_is_cut_to_what_batch_takes(batch):
    job_id = batch.add("any", "RUNNING")
    terminate_job(batch, job_id, "x" * 5000)
    assert batch.terminated == [(job_id, "x" * REASON_CHARACTERS)]


NODES = {"numNodes": 3, "mainNode": 0, "nodeRangeProperties": []}


def added(status="RUNNING", **node):
    batch = FakeBatch()
    job = batch.add("any", status, nodeProperties=NODES)
    own = {"jobId": f"{job}#0", "nodeDetails": {"nodeIndex": 0, "isMainNode": True}}
    own["container"] = {"logStreamName": "main", "exitCode": 3}
    batch.jobs[f"{job}#0"] = batch.jobs[job] | own | node
    return batch, job


def test_a_multi_node_job_is_described_with_its_main_node_whose_attempts_are_its_own():
    batch, job = added(attempts=[{"startedAt": 1}], startedAt=1)
    (found,) = describe_jobs(batch, [job]).values()
    assert (found["jobId"], found["status"]) == (job, "RUNNING")
    assert log_location(found).stream == "main"
    assert found["startedAt"] == 1
    assert len(found["attempts"]) == 1
    assert first_child(found)["jobId"] == most_informative_child(found)["jobId"] == f"{job}#0"
    assert describe_jobs(batch, [f"{job}#0"]).keys() == {f"{job}#0"}, "asked for itself"
    del batch.jobs[f"{job}#0"]
    alone = describe_jobs(batch, [job])[job]  # as before it has nodes
    assert first_child(alone) is alone
    assert log_location(alone) is None
    batch, job = added()
    batch.change(job, attempts=[{"startedAt": 1}], startedAt=1, stoppedAt=2)
    found = describe_jobs(batch, [job])[job]
    node = first_child(found)
    assert (node["attempts"], node["stoppedAt"]) == ([{"startedAt": 1}], 2)


def test_a_multi_node_jobs_failure_is_told_by_both():
    batch, job = added("FAILED", statusReason="Essential container in task exited")
    batch.change(job, statusReason="Host EC2 (instance i-1) terminated.")
    text = failure_message(describe_jobs(batch, [job])[job], ["node 2 at 10.0.0.7 fell silent"])
    assert "status reason: Host EC2 (instance i-1) terminated." in text
    assert (
        "Its main node: exit code 3 (the command's own error); status reason: Essential container"
        in text
    )
    assert "node 2 at 10.0.0.7 fell silent" in text


NEW = {"resourceRequirements": [{"type": "VCPU", "value": "2"}, {"type": "GPU", "value": "1"}]}


@pytest.mark.parametrize(
    ("container", "asked"),
    [
        (NEW, {"VCPU": 2.0, "GPU": 1.0}),
        ({"vcpus": 4, "memory": 512}, {"VCPU": 4.0, "MEMORY": 512.0}),
        (NEW | {"vcpus": 4, "memory": 512}, {"VCPU": 2.0, "MEMORY": 512.0, "GPU": 1.0}),
        ({"vcpus": 0}, {}),
    ],
)
def test_a_container_asks_in_fields_of_old_where_it_does_not_otherwise(container, asked):
    assert requirements_of(container) == asked


def test_a_queue_tries_its_environments_in_the_order_of_their_numbers():
    order = [{"order": n, "computeEnvironment": f"number {n}"} for n in (10, 9)]
    assert environment_names({"computeEnvironmentOrder": order}) == ("number 9", "number 10")
    assert environment_names({}) == ()
