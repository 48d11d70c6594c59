"""Which instances the guard considers leaked."""

import pytest

from tests.builders.leaks import ARN, answer_jobs, answer_others, finished, instance, job, looked

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
