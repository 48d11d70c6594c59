"""Which instances the guard considers leaked, also a cluster's node without a run that needs it."""

from datetime import timedelta

import pytest

from batchmark.checks.leak_judge import Judge
from batchmark.checks.leak_records import GuardReport, LeakAges, RunName
from batchmark.checks.leaks import end_leaks
from batchmark.checks.node_leaks import cluster_resources
from tests.builders.clusters import RUN_ID, published
from tests.builders.leaks import (
    ARN,
    NOW,
    answer_jobs,
    answer_others,
    finished,
    instance,
    job,
    looked,
)

IDLE = "No job has been STARTING or RUNNING since 2026-11-21 "


def answer_array(clients, *children):
    """Answer for the parent of an array job and its children."""
    live = not all("stoppedAt" in child for child in children)
    parent = job("PENDING" if live else "SUCCEEDED", arrayProperties={"size": len(children)})
    found = [
        child | {"jobId": f"j-1:{index}", "arrayProperties": {"index": index}}
        for index, child in enumerate(children)
    ]
    answer_jobs(clients, parent, children=found)


IN_USE, YOUNG = "1 job(s) of its target are running.", "Idle for less than 30 minutes."
STOPPED = IDLE + "11:29 UTC."
NEVER_JOINED = IDLE + "10:00 UTC (RUNNABLE: 1; it may never have joined its cluster)."


@pytest.mark.parametrize(
    ("answer", "jobs", "hours", "verdict", "reason"),
    [
        (answer_jobs, [job()], 2, "in use", IN_USE),
        (answer_jobs, [job("STARTING")], 2, "in use", IN_USE),
        (answer_jobs, [], 0.4, "new", YOUNG),
        (answer_jobs, [], 2, "leaked", IDLE + "10:00 UTC."),
        (answer_jobs, [finished("SUCCEEDED", 29)], 2, "new", YOUNG),
        (answer_jobs, [finished("FAILED", 31)], 2, "leaked", STOPPED),
        (answer_jobs, [job("RUNNABLE")], 2, "leaked", NEVER_JOINED),
        # The parent of an array is PENDING while its children run.
        (answer_array, [job(), job()], 2, "in use", "2 job(s) of its target are running."),
        (answer_array, [job(), job("RUNNABLE")], 2, "in use", IN_USE),
        (answer_array, [finished("SUCCEEDED", 50), finished("SUCCEEDED", 29)], 2, "new", YOUNG),
        (answer_array, [finished("FAILED", 50), finished("SUCCEEDED", 31)], 2, "leaked", STOPPED),
    ],
)
def test_an_instance_of_an_idle_target_leaks(clients, answer, jobs, hours, verdict, reason):
    answer(clients, *jobs)
    answer_others(clients, [instance(hours)])
    report, _ = looked(clients, "live")
    (found,) = [each for each in report.resources if each.kind == "instance"]
    assert (found.verdict, found.reason) == (verdict, reason)
    assert found.endable == ("instances" if verdict == "leaked" else None)


CLUSTER = "arn:aws:ecs:eu-west-1:111122223333:cluster/lab-m5-large_Batch_1"
HOST = f"{CLUSTER.replace(':cluster', ':container-instance')}/0a1b"


def environment(name, installation="lab", **fields):
    tags = {"batchmark:installation": installation}
    arn = f"{ARN}:compute-environment/{name}"
    return {"computeEnvironmentName": name, "computeEnvironmentArn": arn, "tags": tags} | fields


def answer_environments(clients, *others):
    there = [environment("lab-m5-large", ecsClusterArn=CLUSTER), *others]
    clients.answer("batch", "describe_compute_environments", {"computeEnvironments": there})


def answer_hosts(clients, running, pending):
    """Batch's environments, of which one is another installation's, and what ECS runs on i-1."""
    answer_environments(
        clients,
        environment("lab-being-made"),
        environment("theirs", installation="another", ecsClusterArn=f"{CLUSTER}-theirs"),
    )
    asked = {"cluster": CLUSTER, "filter": "ec2InstanceId == i-1"}
    there = running is not None
    hosts = {"containerInstanceArns": [HOST] if there else []}
    clients.answer("ecs", "list_container_instances", hosts, asked)
    if there:
        counts = [{"runningTasksCount": running, "pendingTasksCount": pending}]
        asked = {"cluster": CLUSTER, "containerInstances": [HOST]}
        found = {"containerInstances": counts}
        clients.answer("ecs", "describe_container_instances", found, asked)


@pytest.mark.parametrize(
    ("running", "pending", "verdict", "reason"),
    [
        (1, 0, "in use", "1 job(s) are running on it."),
        (0, 1, "in use", "1 job(s) are running on it."),
        (0, 0, "leaked", IDLE + "10:00 UTC."),
        (None, None, "leaked", IDLE + "10:00 UTC."),
    ],
)
def test_unknown_targets_instances_are_used_by_jobs(clients, running, pending, verdict, reason):
    """Whichever queue the job came from: Terraform may have removed the target meanwhile."""
    answer_jobs(clients, job())
    answer_others(clients, [instance(target="m5.large")])
    answer_hosts(clients, running, pending)
    report, _ = looked(clients, "live")
    (found,) = [each for each in report.resources if each.kind == "instance"]
    assert (found.verdict, found.reason, found.target) == (verdict, reason, "m5.large")
    assert found.endable == ("instances" if verdict == "leaked" else None)


def test_where_ecs_gives_no_answer_an_instance_of_an_unknown_target_is_no_leak(clients):
    answer_jobs(clients)
    answer_others(clients, [instance(target="m5.large"), instance() | {"InstanceId": "i-2"}])
    answer_environments(clients)
    clients.refuse("ecs", "list_container_instances", "ServerException", "later")
    report, _ = looked(clients)
    assert [one.id for one in report.of("leaked")] == ["i-2"]
    assert report.unread == ("instances: ServerException: later",)


GROUP_ARN = "arn:aws:eks:us-east-1:111122223333:nodegroup/batchmark-gpu-sharing/gpu/1"
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
        "nodegroupArn": GROUP_ARN,
        "scalingConfig": {"minSize": 0, "desiredSize": size, "maxSize": 1},
        "modifiedAt": NOW - timedelta(minutes=minutes),
        "tags": TAGS if tags is None else tags,
    }
    clients.answer("eks", "describe_nodegroup", {"nodegroup": group}, NAMED)


def looked_at_group(clients, size, state="over", instances=(), **group):
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
    (cluster,) = looked_at_group(clients, 0)
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
    (_, node) = looked_at_group(clients, 1, state, **group)
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
    (_, left) = looked_at_group(clients, 0, instances=[INSTANCE], minutes=minutes)
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
    found = looked_at_group(clients, 1, "live", minutes=361)
    assert ended(clients, found, ["nodes"], "live") == ("Left alone: its run is live.", False)
    found = looked_at_group(clients, 1)
    left = "Left alone: end_leaks does not include nodes."
    assert ended(clients, found, ["instances"]) == (left, False)
    update = {"update": {"id": "u", "status": "InProgress"}}
    asked = NAMED | {"scalingConfig": {"desiredSize": 0}}
    clients.answer("eks", "update_nodegroup_config", update, asked)
    answer_group(clients, 0)
    clients.answer("eks", "untag_resource", {}, {"resourceArn": GROUP_ARN, "tagKeys": list(TAGS)})
    assert ended(clients, found, ["nodes"]) == ("Ended.", True)
