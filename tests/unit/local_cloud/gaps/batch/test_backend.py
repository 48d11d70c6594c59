"""Job queues: what is kept of a request, and what is refused."""

import pytest
from moto.ecs.models import ecs_backends

from tests.stand_ins.local_batch import ACCOUNT, REGION


@pytest.fixture
def queue(batch):
    batch.environment()
    return batch.queue(state=None)


def described(batch):
    (queue,) = batch.call("DescribeJobQueues")["jobQueues"]
    return queue


def test_a_queue_is_enabled_and_names_its_environments_by_their_arns(batch, queue):
    assert described(batch)["state"] == "ENABLED"
    assert "schedulingPolicyArn" not in described(batch)
    batch.environment("other")
    (first,) = described(batch)["computeEnvironmentOrder"]
    assert first["computeEnvironment"].endswith(":compute-environment/environment")
    order = [{"order": 1, "computeEnvironment": "other"}]
    batch.call("UpdateJobQueue", jobQueue=queue, computeEnvironmentOrder=order)
    (second,) = described(batch)["computeEnvironmentOrder"]
    assert second["computeEnvironment"].endswith(":compute-environment/other")


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


def test_environments_and_queues_are_deleted_in_awss_order(batch, queue):
    of_environment = {"computeEnvironment": "environment"}
    batch.call("UpdateComputeEnvironment", **of_environment, state="DISABLED")
    refused = batch.refusal("DeleteComputeEnvironment", **of_environment)
    assert "JobQueue relationship" in refused
    assert "must be DISABLED" in batch.refusal("DeleteJobQueue", jobQueue=queue)
    batch.call("UpdateJobQueue", jobQueue=queue, state="DISABLED")
    batch.call("DeleteJobQueue", jobQueue=queue)
    assert batch.call("DescribeJobQueues")["jobQueues"] == []
    (cluster,) = ecs_backends[ACCOUNT][REGION].clusters
    assert cluster.startswith("environment_Batch_")
    batch.call("DeleteComputeEnvironment", **of_environment)
    assert not ecs_backends[ACCOUNT][REGION].clusters


def test_a_queue_keeps_its_time_limits(batch):
    limit = {"reason": "any", "state": "RUNNABLE", "maxTimeSeconds": 600, "action": "CANCEL"}
    longer = limit | {"maxTimeSeconds": 900}
    batch.environment()
    queue = batch.queue(jobStateTimeLimitActions=[limit])
    assert described(batch)["jobStateTimeLimitActions"] == [limit]
    batch.call("UpdateJobQueue", jobQueue=queue, priority=2)
    assert described(batch)["jobStateTimeLimitActions"] == [limit]
    batch.call("UpdateJobQueue", jobQueue=queue, jobStateTimeLimitActions=[longer])
    assert described(batch)["jobStateTimeLimitActions"] == [longer]
