"""Fair-share policies, the queues that have one, and the jobs of their shares."""

import pytest

from local_cloud.gaps.batch.scheduling_policies import MAX_SHARES

SHARES = [{"shareIdentifier": "A*", "weightFactor": 0.5}, {"shareIdentifier": "B"}]
POLICY = {"shareDecaySeconds": 3600, "computeReservation": 1, "shareDistribution": SHARES}


@pytest.fixture
def policy(batch):
    """The ARN of a policy."""
    return batch.call("CreateSchedulingPolicy", name="fair", fairsharePolicy=POLICY)["arn"]


@pytest.fixture
def queue(batch, policy):
    batch.unmanaged_environment()
    return batch.queue(schedulingPolicyArn=policy)


def described(batch, arn):
    (found,) = batch.call("DescribeSchedulingPolicies", arns=[arn])["schedulingPolicies"]
    return found


def test_a_policy_is_kept_changed_and_deleted(batch, policy):
    assert described(batch, policy)["fairsharePolicy"] == POLICY
    assert batch.call("ListSchedulingPolicies")["schedulingPolicies"] == [{"arn": policy}]
    batch.call("UpdateSchedulingPolicy", arn=policy, fairsharePolicy={"computeReservation": 2})
    changed = {"shareDecaySeconds": 0, "computeReservation": 2, "shareDistribution": []}
    assert described(batch, policy)["fairsharePolicy"] == changed
    batch.call("DeleteSchedulingPolicy", arn=policy)
    assert batch.call("ListSchedulingPolicies")["schedulingPolicies"] == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shareDecaySeconds": 604_801}, "between 0 and 604800, not 604801"),
        ({"computeReservation": 100}, "between 0 and 99, not 100"),
        ({"shareDistribution": [{"shareIdentifier": "a-b"}]}, "not 'a-b'"),
        (
            {"shareDistribution": [{"shareIdentifier": "A", "weightFactor": 0}]},
            "weightFactor must be between 0.0001 and 999.9999, not 0",
        ),
        (
            {"shareDistribution": [{"shareIdentifier": "A1"}, {"shareIdentifier": "A*"}]},
            "can't overlap: A* and A1",
        ),
        (
            {"shareDistribution": [{"shareIdentifier": str(i)} for i in range(MAX_SHARES + 1)]},
            "at most 500 share identifiers, not 501",
        ),
    ],
)
def test_a_policy_that_aws_refuses(batch, policy, change, message):
    asked = {"name": "other", "fairsharePolicy": change}
    assert message in batch.refusal("CreateSchedulingPolicy", **asked)
    assert message in batch.refusal("UpdateSchedulingPolicy", arn=policy, fairsharePolicy=change)
    assert described(batch, policy)["fairsharePolicy"] == POLICY


def test_names_and_kinds_of_policies(batch, policy):
    assert "not 'a b'" in batch.refusal("CreateSchedulingPolicy", name="a b")
    assert "fair already exists" in batch.refusal("CreateSchedulingPolicy", name="fair")
    quota = {"idleResourceAssignmentStrategy": "FIFO"}
    asked = {"name": "quota", "quotaSharePolicy": quota}
    assert "no quota shares" in batch.refusal("CreateSchedulingPolicy", **asked)
    assert "arn:x does not exist" in batch.refusal("UpdateSchedulingPolicy", arn="arn:x")


def test_a_queue_keeps_its_policy_and_the_policy_its_queue(batch, policy, queue):
    (found,) = batch.call("DescribeJobQueues")["jobQueues"]
    assert found["schedulingPolicyArn"] == policy
    assert "used by job queue queue" in batch.refusal("DeleteSchedulingPolicy", arn=policy)
    batch.queue("plain")
    asked = {"jobQueue": "plain", "schedulingPolicyArn": policy}
    assert "can't be given one" in batch.refusal("UpdateJobQueue", **asked)


def test_a_job_describes_its_share_and_its_priority(batch, queue):
    batch.define(schedulingPriority=7)
    (definition,) = batch.call("DescribeJobDefinitions")["jobDefinitions"]
    assert definition["schedulingPriority"] == 7
    job = batch.describe(batch.submit(shareIdentifier="A1"))
    assert (job["shareIdentifier"], job["schedulingPriority"]) == ("A1", 7)
    other = batch.submit(shareIdentifier="B", schedulingPriorityOverride=0)
    assert batch.describe(other)["schedulingPriority"] == 0
    filters = [{"name": "SHARE_IDENTIFIER", "values": ["A*"]}]
    listed = batch.call("ListJobs", jobQueue=queue, filters=filters)["jobSummaryList"]
    assert [summary["shareIdentifier"] for summary in listed] == ["A1"]


def test_shares_belong_to_queues_with_a_policy(batch, queue):
    batch.define()
    batch.queue("plain")
    asked = {"jobName": "job", "jobDefinition": "definition"}
    refused = batch.refusal("SubmitJob", jobQueue="plain", shareIdentifier="A", **asked)
    assert "shareIdentifier must not be given, not 'A'" in refused
    assert "shareIdentifier must be provided" in batch.refusal("SubmitJob", jobQueue=queue, **asked)
    share = {"jobQueue": queue, "shareIdentifier": "A", "schedulingPriorityOverride": 10_000}
    assert "between 0 and 9999, not 10000" in batch.refusal("SubmitJob", **asked, **share)
    assert "between 0 and 9999" in batch.refusal(
        "RegisterJobDefinition", jobDefinitionName="x", type="container", schedulingPriority=-1
    )
    assert "shareIdentifier" not in batch.describe(batch.submit(queue="plain"))


def test_shares_take_turns(batch, queue):
    batch.define(vcpus=4)
    for share in ("B", "B", "A1"):
        batch.submit(f"{share}-job", shareIdentifier=share)
    batch.containers.may_end.set()
    batch.wait_for_starts(3)
    assert batch.containers.started == ["B-job", "A1-job", "B-job"]
