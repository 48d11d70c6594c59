"""An installation of two targets, as Terraform publishes it and AWS describes it, and what the leak
guard makes of what is left there."""

from datetime import UTC, datetime, timedelta

from batchmark.checks.leak_records import LeakAges
from batchmark.checks.leaks import end_leaks, find_leaks
from batchmark.core.names import slug
from batchmark.orchestration.tasks.leaks import leak_params
from tests.builders.installations import configured, target

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
REGION = "eu-west-1"
ARN = f"arn:aws:batch:{REGION}:111122223333"
IMAGE = f"111122223333.dkr.ecr.{REGION}.amazonaws.com/lab-job:0.1.0"
ROLE = "arn:aws:iam::111122223333:role"
PROFILE = "arn:aws:iam::111122223333:instance-profile/lab-instance-1"
RUN_ID = "scheduled__2026-11-21T03:00:00+00:00"
SUFFIXES = ("", "-on-demand")  # of each target's queues
TARGETS = {"g5.xlarge": ("cuda", 4), "c5.2xlarge": ("cpu", 8)}


def queue_arn(target, suffix=""):
    return f"{ARN}:job-queue/lab-{target.replace('.', '-')}{suffix}"


def config(**changes):
    targets = {
        name: target(
            device,
            instance_type=name,
            vcpus=vcpus,
            job_queue=queue_arn(name),
            on_demand_queue=queue_arn(name, "-on-demand"),
            job_definition=f"{ARN}:job-definition/lab-{name.replace('.', '-')}:3",
            compute_environments={"spot": f"{name}-spot", "on_demand": f"{name}-on-demand"},
        )
        for name, (device, vcpus) in TARGETS.items()
    }
    lab = {
        "name": "lab",
        "region": REGION,
        "topic_arn": f"arn:aws:sns:{REGION}:111122223333:lab-alerts",
        "log_group": "/aws/batch/lab",
        "events_log_group": "/aws/events/batch/lab",
        "targets": targets,
    }
    return configured(**lab | changes)


def ago(**span):
    return int((NOW - timedelta(**span)).timestamp() * 1000)


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
    for arn in (queue_arn(name, end) for name in config().targets for end in SUFFIXES):
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

    return find_leaks(config(), clients, ask_run, limits=LeakAges(), now=NOW, **options), asked


def end_by_default(found, clients, state="over", **options):
    """What the guard does about each kind of resource, with the form's defaults."""
    may_end = leak_params()["end_leaks"].resolve()
    report = end_leaks(found, clients, lambda _: state, may_end=may_end, **options)
    return {resource.kind: resource.action for resource in report.resources}


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
