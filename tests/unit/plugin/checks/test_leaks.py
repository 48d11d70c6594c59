"""What the guard considers a leak, and what it ends."""

from datetime import timedelta
from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError

from batchmark.checks.leak_records import ENDABLE, LeakAges, RunName
from batchmark.checks.leaks import end_leaks, look
from batchmark.core.names import slug
from batchmark.orchestration.tasks.leaks import _run_state, leak_params
from tests.builders.existing_jobs import queue
from tests.builders.leaks import ARN, NOW, REGION, ago, config, queue_arn
from tests.builders.scaling import stack
from tests.stand_ins.stubbed_clients import StubbedClients

RUN_ID = "scheduled__2026-11-21T03:00:00+00:00"
SUFFIXES = ("", "-on-demand")  # of each target's queues


@pytest.fixture
def clients():
    stubbed = StubbedClients(REGION)
    yield stubbed
    stubbed.assert_all_was_asked()


def job(status="RUNNING", *, tags=None, run_id=RUN_ID, minutes=60, **fields):
    """Return a job of g5.xlarge from DescribeJobs; ListJobs leaves out some of its fields."""
    ours = {
        "batchmark:installation": "lab",
        "batchmark:run": slug(run_id),
        "batchmark:target": "g5.xlarge",
    }
    return {
        "jobId": "j-1",
        "jobName": "lab-g5-xlarge-blog-1",
        "jobQueue": queue_arn("g5.xlarge"),
        "jobDefinition": "lab-g5-xlarge",
        "status": status,
        "startedAt": ago(minutes=minutes),
        "createdAt": ago(minutes=minutes),
        "parameters": {"run_id": run_id},
        "tags": ours if tags is None else tags,
        **fields,
    }


def finished(status, minutes):
    return job(status, stoppedAt=ago(minutes=minutes))


def summary(described):
    left_out = ("jobQueue", "parameters", "tags", "jobDefinition")
    return {key: value for key, value in described.items() if key not in left_out}


def answer_jobs(clients, *jobs, children=()):
    """Answer for the four queues: all jobs are in the first one, of g5.xlarge."""
    since = {"name": "AFTER_CREATED_AT", "values": [str(ago(days=30))]}
    listed = list(map(summary, jobs))
    for arn in (queue_arn(target, end) for target in config().targets for end in SUFFIXES):
        asked = {"jobQueue": arn, "filters": [since]}
        clients.answer("batch", "list_jobs", {"jobSummaryList": listed}, asked)
        if arn == queue_arn("g5.xlarge"):
            answer_described(clients, [job for job in jobs if "stoppedAt" not in job])
            answer_described(clients, children)
            listed = []


def answer_described(clients, jobs):
    """No jobs, no question."""
    if jobs:
        asked = {"jobs": [job["jobId"] for job in jobs]}
        clients.answer("batch", "describe_jobs", {"jobs": list(jobs)}, asked)


def answer_others(clients, instances=(), file_systems=()):
    filters = [
        {"Name": "tag:batchmark:installation", "Values": ["lab"]},
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
    ]
    found = {"Reservations": [{"Instances": list(instances)}]}
    clients.answer("ec2", "describe_instances", found, {"Filters": filters})
    clients.answer("fsx", "describe_file_systems", {"FileSystems": list(file_systems)})


def seen(clients, state="over", jobs=(), instances=(), file_systems=(), **options):
    """What a look at these finds, and the runs that it asks Airflow about."""
    answer_jobs(clients, *jobs)
    answer_others(clients, instances, file_systems)
    return looked(clients, state, **options)


def looked(clients, state="over", **options):
    """What a look at what was answered finds, and the runs that it asks Airflow about."""
    asked = []

    def ask_run(run):
        asked.append(run)
        return state

    return look(config(), clients, ask_run, limits=LeakAges(), now=NOW, **options), asked


def end_by_default(found, clients, state="over", **options):
    """What the guard does about each kind of resource, with the form's defaults."""
    may_end = leak_params()["end_leaks"].resolve()
    report = end_leaks(found, clients, lambda _: state, may_end=may_end, **options)
    return {resource.kind: resource.action for resource in report.resources}


ELSEWHERE = f"{ARN}:job-queue/images"
GONE = f"{ARN}:job-queue/gone"


def own_job(**fields):
    """A job of ours in a queue of others, whose parameters name no run."""
    tags = job()["tags"] | {"batchmark:run-id": RUN_ID, "batchmark:target": "old"}
    named = {"jobId": "j-9", "jobName": "lab-old-job-resize-1-0123456789-g0"}
    return job(jobQueue=ELSEWHERE, parameters={"size": "1"}, tags=tags, **named) | fields


def answer_elsewhere(clients, *jobs):
    asked = {"jobQueues": [GONE]}
    clients.answer("batch", "describe_job_queues", {"jobQueues": []}, asked)
    asked = {"jobQueues": [ELSEWHERE]}
    clients.answer("batch", "describe_job_queues", {"jobQueues": [queue()]}, asked)
    asked = {"jobQueue": ELSEWHERE, "filters": [{"name": "JOB_NAME", "values": ["lab-*"]}]}
    clients.answer("batch", "list_jobs", {"jobSummaryList": list(map(summary, jobs))}, asked)
    answer_described(clients, [one for one in jobs if "stoppedAt" not in one])


def seen_elsewhere(clients, *jobs, state="over"):
    answer_jobs(clients)
    answer_elsewhere(clients, *jobs)
    answer_others(clients)
    return looked(clients, state, queues=[ELSEWHERE, GONE, queue_arn("g5.xlarge")])


@pytest.mark.parametrize(
    ("state", "verdict", "endable"), [("over", "leaked", "jobs"), ("live", "in use", None)]
)
def test_a_job_of_ours_in_a_queue_of_others_is_judged_as_any(clients, state, verdict, endable):
    report, asked = seen_elsewhere(clients, own_job(), state=state)
    (found,) = report.resources
    assert (found.id, found.verdict, found.endable) == ("j-9", verdict, endable)
    assert (found.target, asked) == ("old", [RunName(dag_id=None, run_id=RUN_ID)])


def test_in_a_queue_of_others_nothing_of_theirs_is_even_named(clients):
    theirs = own_job(jobId="theirs", tags={})
    another = own_job(jobId="another", tags=FOREIGN)
    over = own_job(jobId="ended", status="SUCCEEDED", stoppedAt=ago(minutes=5))
    report, asked = seen_elsewhere(clients, theirs, another, over)
    assert (report.resources, report.unread, asked) == ((), (), [])


def test_where_a_queue_of_others_can_not_be_asked_all_else_is_looked_at(clients):
    closed = f"{ARN}:job-queue/closed"
    answer_jobs(clients)
    clients.refuse("batch", "describe_job_queues", "AccessDeniedException")
    answer_elsewhere(clients, own_job())
    answer_others(clients)
    report, _ = looked(clients, queues=[closed, GONE, ELSEWHERE])
    (unread,) = report.unread
    assert unread.startswith(f"queue {closed}: AccessDeniedException")
    assert [one.id for one in report.resources] == ["j-9"]


NOT_OURS = "It has no tag of ours, so it is never touched."
FOREIGN = {"batchmark:installation": "another", "batchmark:run": slug(RUN_ID)}


@pytest.mark.parametrize(
    ("described", "state", "verdict", "reason", "endable"),
    [
        (job(), "live", "in use", "Its run is live.", None),
        (job(minutes=14), "live", "in use", "Its run is live.", None),
        (job(minutes=14), "over", "new", "It is younger than 15 minutes.", None),
        (job(), "over", "leaked", f"Its run {RUN_ID} is over.", "jobs"),
        (job("RUNNABLE"), "over", "leaked", f"Its run {RUN_ID} is over.", "jobs"),
        (
            job(),
            "unknown",
            "leaked",
            f"This Airflow has no run {RUN_ID}: it was deleted, or is another Airflow's.",
            "jobs_of_unknown_runs",
        ),
        (job(isTerminated=True), "over", "ending", "It was told to stop.", None),
        (job("RUNNABLE", isCancelled=True), "over", "ending", "It was told to stop.", None),
        (job(tags={}, run_id="manual"), "over", "by hand", NOT_OURS, None),
        (job(tags=FOREIGN), "over", "by hand", NOT_OURS, None),
    ],
)
def test_a_job_is_judged_by_its_run_its_age_and_its_tags(
    clients, described, state, verdict, reason, endable
):
    report, _ = seen(clients, state, [described])
    (found,) = report.resources
    assert (found.verdict, found.reason, found.endable) == (verdict, reason, endable)
    assert (found.id, found.target) == ("j-1", "g5.xlarge")


@pytest.mark.parametrize(
    ("tags", "dag_id"),
    [
        ({"batchmark:dag": "gpu_cpu_benchmark"}, "gpu_cpu_benchmark"),
        # As release 0.1 submitted it.
        ({"batchmark:run": "scheduled__2026-11-21T03-00-00-00-00"}, None),
    ],
)
def test_a_run_is_looked_up_by_its_id_and_the_dag_of_its_tag(clients, tags, dag_id):
    _, asked = seen(clients, jobs=[job(tags=job()["tags"] | tags)])
    assert asked == [RunName(dag_id=dag_id, run_id=RUN_ID)]


@pytest.mark.parametrize(
    ("tags", "run_id", "shown"),
    [
        ({"batchmark:run": "scheduled__x"}, "manual", "scheduled__x"),
        ({"batchmark:run": "scheduled__x"}, "another-run", "scheduled__x"),
        ({}, RUN_ID, "(it names none)"),
    ],
)
def test_a_run_id_that_differs_from_its_tag_is_not_looked_up(clients, tags, run_id, shown):
    ours = {"batchmark:installation": "lab"} | tags
    report, asked = seen(clients, jobs=[job(tags=ours, run_id=run_id)])
    assert asked == []
    assert report.resources[0].endable == "jobs_of_unknown_runs"
    assert report.resources[0].reason == (
        f"This Airflow has no run {shown}: it was deleted, or is another Airflow's."
    )


def test_finished_jobs_and_another_installations_file_systems_are_not_shown(clients):
    theirs = file_system(installation="another")
    report, _ = seen(clients, jobs=[finished("SUCCEEDED", 50)], file_systems=[theirs])
    assert (report.resources, report.summary, report.alarm()) == ((), "nothing runs", "")


def test_a_failure_to_list_jobs_is_an_error(clients):
    clients.refuse("batch", "list_jobs", "AccessDeniedException", "no")
    with pytest.raises(ClientError, match="AccessDeniedException"):
        looked(clients)


def test_other_unreadable_resources_are_reported(clients):
    answer_jobs(clients)
    clients.refuse("ec2", "describe_instances", "UnauthorizedOperation", "not you")
    clients.refuse("fsx", "describe_file_systems", "InternalServerError", "later")
    report, _ = looked(clients)
    assert report.unread == (
        "instances: UnauthorizedOperation: not you (attach the policies of `terraform output "
        "airflow_policy_arns` to Airflow's role)",
        "file systems: InternalServerError: later",
    )


def instance(hours=2.0, target="g5.xlarge"):
    return {
        "InstanceId": "i-1",
        "InstanceType": "g5.xlarge",
        "State": {"Name": "running"},
        "LaunchTime": NOW - timedelta(hours=hours),
        "Tags": [
            {"Key": "batchmark:installation", "Value": "lab"},
            {"Key": "Target", "Value": target},
        ],
    }


IDLE = "No job in STARTING or RUNNING since 2026-11-21 "


def answer_array(clients, *children):
    """Answer for the parent of an array job and its children."""
    live = not all("stoppedAt" in child for child in children)
    parent = job("PENDING" if live else "SUCCEEDED", arrayProperties={"size": len(children)})
    found = [
        child | {"jobId": f"j-1:{index}", "arrayProperties": {"index": index}}
        for index, child in enumerate(children)
    ]
    answer_jobs(clients, parent, children=found)


IN_USE, YOUNG = "1 job(s) of its target run.", "Idle for less than 30 minutes."


@pytest.mark.parametrize(
    ("answer", "jobs", "hours", "verdict", "reason"),
    [
        (answer_jobs, [job()], 2, "in use", IN_USE),
        (answer_jobs, [job("STARTING")], 2, "in use", IN_USE),
        (answer_jobs, [], 0.4, "new", YOUNG),
        (answer_jobs, [], 2, "leaked", IDLE + "10:00 UTC."),
        (answer_jobs, [finished("SUCCEEDED", 29)], 2, "new", YOUNG),
        (answer_jobs, [finished("FAILED", 31)], 2, "leaked", IDLE + "11:29 UTC."),
        (
            *(answer_jobs, [job("RUNNABLE")], 2, "leaked"),
            IDLE + "10:00 UTC, though 1 in RUNNABLE: it may never have joined its cluster.",
        ),
        # The parent of an array is PENDING while its children run.
        (answer_array, [job(), job()], 2, "in use", "2 job(s) of its target run."),
        (answer_array, [job(), job("RUNNABLE")], 2, "in use", IN_USE),
        (answer_array, [finished("SUCCEEDED", 50), finished("SUCCEEDED", 29)], 2, "new", YOUNG),
        (
            *(answer_array, [finished("FAILED", 50), finished("SUCCEEDED", 31)], 2, "leaked"),
            IDLE + "11:29 UTC.",
        ),
    ],
)
def test_an_instance_leaks_when_its_target_has_run_nothing_for_long(
    clients, answer, jobs, hours, verdict, reason
):
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


def answer_hosts(clients, running, pending):
    """Batch's environments, of which one is another installation's, and what ECS runs on i-1."""
    environments = [
        environment("lab-m5-large", ecsClusterArn=CLUSTER),
        environment("lab-being-made"),
        environment("theirs", installation="another", ecsClusterArn=f"{CLUSTER}-theirs"),
    ]
    clients.answer("batch", "describe_compute_environments", {"computeEnvironments": environments})
    asked = {"cluster": CLUSTER, "filter": "ec2InstanceId == i-1"}
    there = running is not None
    hosts = {"containerInstanceArns": [HOST] if there else []}
    clients.answer("ecs", "list_container_instances", hosts, asked)
    if there:
        counts = {"runningTasksCount": running, "pendingTasksCount": pending}
        asked = {"cluster": CLUSTER, "containerInstances": [HOST]}
        clients.answer(
            "ecs", "describe_container_instances", {"containerInstances": [counts]}, asked
        )


@pytest.mark.parametrize(
    ("running", "pending", "verdict", "reason"),
    [
        (1, 0, "in use", "1 job(s) run on it."),
        (0, 1, "in use", "1 job(s) run on it."),
        (0, 0, "leaked", IDLE + "10:00 UTC."),
        (None, None, "leaked", IDLE + "10:00 UTC."),
    ],
)
def test_an_instance_of_an_unknown_target_is_used_while_a_job_runs_on_it(
    clients, running, pending, verdict, reason
):
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
    there = [environment("lab-m5-large", ecsClusterArn=CLUSTER)]
    clients.answer("batch", "describe_compute_environments", {"computeEnvironments": there})
    clients.refuse("ecs", "list_container_instances", "ServerException", "later")
    report, _ = looked(clients)
    assert [one.id for one in report.of("leaked")] == ["i-2"]
    assert report.unread == ("instances: ServerException: later",)


def file_system(hours=30.0, lifecycle="AVAILABLE", **tags):
    ours = {"batchmark:installation": "lab"} | {
        f"batchmark:{name.replace('_', '-')}": value for name, value in tags.items()
    }
    return {
        "FileSystemId": "fs-0123456789abcdef0",
        "FileSystemType": "LUSTRE",
        "StorageCapacity": 1200,
        "Lifecycle": lifecycle,
        "CreationTime": NOW - timedelta(hours=hours),
        "Tags": [{"Key": key, "Value": value} for key, value in ours.items()],
    }


@pytest.mark.parametrize(
    ("jobs", "there", "state", "verdict", "reason"),
    [
        ([], file_system(), "over", "leaked", "No job of ours is live."),
        ([], file_system(23), "over", "new", "It is younger than 24 hours."),
        ([job()], file_system(), "live", "in use", "1 job(s) of the installation live."),
        ([job()], file_system(0.3, run_id="r"), "over", "leaked", "Its run r is over."),
        ([], file_system(0.2, run_id="r"), "over", "new", "It is younger than 15 minutes."),
        ([], file_system(23, run_id="r"), "unknown", "new", "It is younger than 24 hours."),
        (
            *([], file_system(run_id="r"), "unknown", "leaked"),
            "This Airflow has no run r: it was deleted, or is another Airflow's.",
        ),
        (
            *([], file_system(73, run_id="r"), "live", "leaked"),
            "Its run r is live for more than 72 hours: cancel it if it hangs.",
        ),
        ([], file_system(run_id="r", dag="d"), "live", "in use", "Its run is live."),
        ([], file_system(lifecycle="DELETING"), "over", "ending", "It is being deleted."),
    ],
)
def test_a_file_system_leaks_when_it_is_old_and_nothing_uses_it(
    clients, jobs, there, state, verdict, reason
):
    report, _ = seen(clients, state, jobs, file_systems=[there])
    (found,) = [each for each in report.resources if each.kind == "file system"]
    assert (found.verdict, found.reason) == (verdict, reason)
    assert found.what.startswith("LUSTRE, 1200 GiB, ")


NODES = stack(name="lab", region=REGION)
PARAMETER = NODES.file_system.id_parameter


def name_file_system(clients, value):
    found = {"Name": PARAMETER, "Value": value, "LastModifiedDate": NOW}
    clients.answer("ssm", "get_parameter", {"Parameter": found}, {"Name": PARAMETER})


def set_to_none(clients):
    asked = {"Name": PARAMETER, "Value": "none", "Overwrite": True}
    clients.answer("ssm", "put_parameter", {}, asked)


def look_with_nodes(clients, *file_systems):
    return seen(clients, file_systems=file_systems, nodes=NODES)[0]


def test_a_file_system_that_nodes_would_mount_is_named_no_more_before_it_is_deleted(clients):
    there = file_system(run_id="r", dag="d")
    name_file_system(clients, there["FileSystemId"])
    found = look_with_nodes(clients, there)
    name_file_system(clients, there["FileSystemId"])
    set_to_none(clients)
    clients.answer("fsx", "delete_file_system", {}, {"FileSystemId": there["FileSystemId"]})
    assert end_by_default(found, clients, nodes=NODES) == {"file system": "Deleted."}


def test_a_file_system_is_deleted_although_the_parameter_can_not_be_read(clients):
    there = file_system(run_id="r", dag="d")
    clients.refuse("ssm", "get_parameter", "ParameterNotFound", "")
    found = look_with_nodes(clients, there)
    assert [one.id for one in found.of("leaked")] == [there["FileSystemId"]]
    assert found.unread == ("file systems: ParameterNotFound",)
    clients.refuse("ssm", "get_parameter", "AccessDeniedException", "")
    clients.answer("fsx", "delete_file_system", {}, {"FileSystemId": there["FileSystemId"]})
    done = end_by_default(found, clients, nodes=NODES)["file system"]
    assert done.startswith("Deleted. Nodes may still try to mount it: AccessDeniedException")


@pytest.mark.parametrize(
    ("tags", "done"),
    [
        ({"run_id": "r", "dag": "d"}, "Deleted."),
        ({"target": "by-hand"}, "Left alone: end_leaks does not name file_systems."),
    ],
)
def test_by_default_a_deleted_runs_file_system_is_deleted_too(clients, tags, done):
    there = file_system(25, **tags)
    found, _ = seen(clients, "unknown", file_systems=[there])
    if done == "Deleted.":
        clients.answer("fsx", "delete_file_system", {}, {"FileSystemId": there["FileSystemId"]})
    assert end_by_default(found, clients, "unknown") == {"file system": done}


@pytest.mark.parametrize("value", ["none", "fs-0123456789abcdef0"])
def test_a_parameter_that_names_what_is_there_or_none_is_in_order(clients, value):
    name_file_system(clients, value)
    report = look_with_nodes(clients, file_system(0.1, run_id="r"))
    assert [one.kind for one in report.resources] == ["file system"]


def test_a_parameter_that_names_a_file_system_which_is_gone_is_set_to_none(clients):
    name_file_system(clients, "fs-gone")
    found = look_with_nodes(clients)
    (seen_,) = found.of("leaked")
    assert (seen_.kind, seen_.id, seen_.what) == ("parameter", PARAMETER, "names fs-gone")
    set_to_none(clients)
    assert end_by_default(found, clients, nodes=NODES) == {"parameter": "Set to 'none'."}


def look_at_all(clients, state="over"):
    """Search an account with a leaked job, instance and file system."""
    return seen(clients, state, [job("RUNNABLE")], [instance()], [file_system(run_id="r")])[0]


def test_only_what_may_be_ended_is_ended(clients):
    found = look_at_all(clients)
    clients.answer("batch", "describe_jobs", {"jobs": [job()]}, {"jobs": ["j-1"]})
    reason = "Batchmark's leak guard: its Airflow run is over"
    clients.answer("batch", "terminate_job", {}, {"jobId": "j-1", "reason": reason})
    report = end_leaks(found, clients, lambda _: "over", may_end=["jobs"])
    assert [(one.ended, one.action) for one in report.resources] == [
        (True, "Ended."),
        (False, "Left alone: end_leaks does not name instances."),
        (False, "Left alone: end_leaks does not name run_file_systems."),
    ]


def test_everything_is_ended_if_all_is_allowed(clients):
    found = look_at_all(clients, "unknown")
    clients.answer("batch", "describe_jobs", {"jobs": [job()]})
    clients.answer("batch", "terminate_job", {})
    clients.answer("ec2", "terminate_instances", {}, {"InstanceIds": ["i-1"]})
    asked = {"FileSystemId": "fs-0123456789abcdef0"}
    clients.answer("fsx", "delete_file_system", {}, asked)
    report = end_leaks(found, clients, lambda _: "unknown", may_end=ENDABLE)
    assert all(one.ended for one in report.resources)
    assert report.alarm().splitlines() == [
        "job j-1 (lab-g5-xlarge-blog-1, RUNNABLE), since 2026-11-21 11:00 UTC: This Airflow has no "
        f"run {RUN_ID}: it was deleted, or is another Airflow's. Ended.",
        "instance i-1 (g5.xlarge, running), since 2026-11-21 10:00 UTC: No job in STARTING or "
        "RUNNING since 2026-11-21 10:00 UTC, though 1 in RUNNABLE: it may never have joined its "
        "cluster. Ended.",
        "file system fs-0123456789abcdef0 (LUSTRE, 1200 GiB, AVAILABLE), since 2026-11-20 06:00 "
        "UTC: This Airflow has no run r: it was deleted, or is another Airflow's. Deleted.",
    ]


def test_what_is_in_use_is_never_ended(clients):
    report, _ = seen(clients, "live", [job()], [instance()], [file_system(run_id="r")])
    assert end_leaks(report, clients, lambda _: "over", may_end=ENDABLE) == report


@pytest.mark.parametrize(
    ("first", "then", "now", "done"),
    [
        ("unknown", "unknown", None, "Left alone: end_leaks does not name jobs_of_unknown_runs."),
        ("over", "live", None, "Left alone: its run is live."),  # it was cleared meanwhile
        ("over", "over", "SUCCEEDED", "It has ended by itself meanwhile."),
        ("over", "over", "RUNNING", "Could not be ended: ClientException: busy"),
    ],
)
def test_a_leaked_job_that_is_not_ended_says_why(clients, first, then, now, done):
    found, _ = seen(clients, first, [job()])
    if now:
        clients.answer("batch", "describe_jobs", {"jobs": [job(now)]})
    if now == "RUNNING":
        clients.refuse("batch", "terminate_job", "ClientException", "busy")
    report = end_leaks(found, clients, lambda _: then, may_end=["jobs"])
    assert [(one.ended, one.action) for one in report.resources] == [(now == "SUCCEEDED", done)]


@pytest.mark.parametrize(
    ("runs", "dag_id", "state"),
    [
        ({("gpu_cpu_benchmark", "r"): "running"}, None, "live"),
        ({("noise_calibration", "r"): "queued"}, None, "live"),
        ({("noise_calibration", "r"): "failed"}, None, "over"),
        ({("gpu_cpu_benchmark", "other"): "running"}, None, "unknown"),
        ({("gpu_cpu_benchmark", "r"): "success", ("mine", "r"): "running"}, "mine", "live"),
        ({("gpu_cpu_benchmark", "r"): "success"}, "mine", "unknown"),
    ],
)
def test_airflow_is_asked_for_the_runs_state(runs, dag_id, state):
    def get_dr_count(*, dag_id, run_ids, states=None):
        return sum(
            (dag_id, run_id) in runs and (states is None or runs[dag_id, run_id] in states)
            for run_id in run_ids
        )

    ti = SimpleNamespace(get_dr_count=get_dr_count)
    assert _run_state(ti, RunName(dag_id=dag_id, run_id="r")) == state
