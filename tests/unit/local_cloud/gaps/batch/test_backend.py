"""Job queues: what is kept of a request, and what is refused."""

import pytest


@pytest.fixture
def queue(batch):
    batch.environment()
    return batch.queue(state=None)


def described(batch):
    (queue,) = batch.call("DescribeJobQueues")["jobQueues"]
    return queue


def test_a_queue_names_its_environments_by_their_arns(batch, queue):
    batch.environment("other")
    (first,) = described(batch)["computeEnvironmentOrder"]
    assert first["computeEnvironment"].endswith(":compute-environment/environment")
    order = [{"order": 1, "computeEnvironment": "other"}]
    batch.call("UpdateJobQueue", jobQueue=queue, computeEnvironmentOrder=order)
    (second,) = described(batch)["computeEnvironmentOrder"]
    assert second["computeEnvironment"].endswith(":compute-environment/other")


def test_a_queue_is_enabled_unless_it_says_otherwise(batch, queue):
    assert described(batch)["state"] == "ENABLED"
    assert "schedulingPolicyArn" not in described(batch)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"computeEnvironmentOrder": [{"order": 1, "computeEnvironment": "nothing"}]},
            "Compute environment nothing does not exist",
        ),
        ({"computeEnvironmentOrder": []}, "At least 1 compute environment must be provided"),
        ({"jobQueue": "nothing"}, "Job queue nothing does not exist"),
    ],
)
def test_a_refused_update_changes_nothing(batch, queue, change, message):
    before = described(batch)
    asked = {"jobQueue": queue, "state": "DISABLED", "priority": 7} | change
    assert batch.refusal("UpdateJobQueue", **asked) == message
    assert described(batch) == before
