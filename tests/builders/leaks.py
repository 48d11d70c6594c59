"""An installation of two targets, as Terraform publishes it and AWS describes it."""

from datetime import UTC, datetime, timedelta

from tests.builders.installations import configured, target

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
REGION = "eu-west-1"
ARN = f"arn:aws:batch:{REGION}:111122223333"
IMAGE = f"111122223333.dkr.ecr.{REGION}.amazonaws.com/lab-job:0.1.0"
ROLE = "arn:aws:iam::111122223333:role"
PROFILE = "arn:aws:iam::111122223333:instance-profile/lab-instance-1"
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
