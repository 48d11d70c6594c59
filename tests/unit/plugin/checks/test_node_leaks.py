"""The cluster's GPU node, with and without a run that needs it."""

from datetime import timedelta

import pytest

from batchmark.checks.leak_judge import Judge
from batchmark.checks.leak_records import GuardReport, LeakAges, RunName
from batchmark.checks.leaks import end_leaks
from batchmark.checks.node_leaks import cluster_resources
from tests.builders.clusters import RUN_ID, published
from tests.builders.leaks import NOW

ARN = "arn:aws:eks:us-east-1:111122223333:nodegroup/batchmark-gpu-sharing/gpu/1"
NAMED = {"clusterName": "batchmark-gpu-sharing", "nodegroupName": "gpu"}
FILTERS = [
    {"Name": "tag:batchmark:installation", "Values": ["batchmark"]},
    {"Name": "tag:Target", "Values": ["g4dn.12xlarge-eks"]},
    {"Name": "instance-state-name", "Values": ["pending", "running"]},
]
INSTANCE = {
    "InstanceId": "i-1",
    "InstanceType": "g4dn.12xlarge",
    "State": {"Name": "running"},
    "LaunchTime": NOW - timedelta(hours=3),
    "Tags": [{"Key": "Target", "Value": "g4dn.12xlarge-eks"}],
}
LONG_LIVE = f"Its run {RUN_ID} has been live for over 6 hours: cancel it if it is stuck."
TAGS = {"batchmark:dag": "eks_gpu_sharing_benchmark", "batchmark:run-id": RUN_ID}


def answer_group(clients, size, *, minutes=60, tags=None):
    group = {
        "nodegroupArn": ARN,
        "scalingConfig": {"minSize": 0, "desiredSize": size, "maxSize": 1},
        "modifiedAt": NOW - timedelta(minutes=minutes),
        "tags": TAGS if tags is None else tags,
    }
    clients.answer("eks", "describe_nodegroup", {"nodegroup": group}, NAMED)


def looked(clients, size, state="over", instances=(), **group):
    cluster = {"cluster": {"version": "1.35", "createdAt": NOW - timedelta(days=2)}}
    clients.answer("eks", "describe_cluster", cluster, {"name": NAMED["clusterName"]})
    answer_group(clients, size, **group)
    if not size:
        found = {"Reservations": [{"Instances": list(instances)}]}
        clients.answer("ec2", "describe_instances", found, {"Filters": FILTERS})
    asked = []

    def ask_run(run):
        asked.append(run)
        return state

    found = cluster_resources(published(), Judge(clients, ask_run, LeakAges(), NOW))
    assert asked in ([], [RunName(dag_id="eks_gpu_sharing_benchmark", run_id=RUN_ID)])
    return found


def test_a_cluster_without_node_is_named_and_no_leak(clients):
    (cluster,) = looked(clients, 0)
    assert (cluster.kind, cluster.verdict) == ("cluster", "in use")
    assert "billed until `terraform destroy`" in cluster.reason


@pytest.mark.parametrize(
    ("state", "group", "verdict", "reason"),
    [
        ("live", {}, "in use", "Its run is live."),
        ("live", {"minutes": 361}, "leaked", LONG_LIVE),
        ("over", {}, "leaked", f"Its run {RUN_ID} is not live."),
        ("unknown", {}, "leaked", f"Its run {RUN_ID} is not live."),
        ("over", {"tags": {}}, "leaked", "No run requested it."),
        ("over", {"minutes": 3}, "new", "It was requested less than 15 minutes ago."),
    ],
)
def test_the_node_is_judged_by_the_run_that_asked_for_it(clients, state, group, verdict, reason):
    (_, node) = looked(clients, 1, state, **group)
    assert (node.verdict, node.reason) == (verdict, reason)
    assert node.endable == ("nodes" if verdict == "leaked" else None)


@pytest.mark.parametrize(
    ("minutes", "verdict", "reason"),
    [
        (29, "ending", "Its node group's desired size is 0."),
        (30, "leaked", "Its node group's desired size is 0 since 2026-11-21 11:30 UTC."),
    ],
)
def test_an_instance_that_outlives_its_node_group_is_seen(clients, minutes, verdict, reason):
    (_, left) = looked(clients, 0, instances=[INSTANCE], minutes=minutes)
    assert (left.kind, left.id, left.target) == ("instance", "i-1", "g4dn.12xlarge-eks")
    assert (left.verdict, left.reason) == (verdict, reason)
    assert left.endable == ("instances" if verdict == "leaked" else None)


def ended(clients, resources, may_end, state="over"):
    """What the guard says of the node, and whether it was ended."""
    where = {"installation": "batchmark", "region": "us-east-1", "looked_at": NOW}
    report = GuardReport(resources=tuple(resources), **where)
    after = end_leaks(report, clients, lambda _: state, may_end=may_end, cluster=published())
    return after.resources[1].action, after.resources[1].ended


def test_a_leaked_node_is_ended_where_that_is_allowed_and_its_run_is_not_live(clients):
    found = looked(clients, 1, "live", minutes=361)
    assert ended(clients, found, ["nodes"], "live") == ("Left alone: its run is live.", False)
    found = looked(clients, 1)
    left = "Left alone: end_leaks does not include nodes."
    assert ended(clients, found, ["instances"]) == (left, False)
    update = {"update": {"id": "u", "status": "InProgress"}}
    asked = NAMED | {"scalingConfig": {"desiredSize": 0}}
    clients.answer("eks", "update_nodegroup_config", update, asked)
    answer_group(clients, 0)
    clients.answer("eks", "untag_resource", {}, {"resourceArn": ARN, "tagKeys": list(TAGS)})
    assert ended(clients, found, ["nodes"]) == ("Ended.", True)
