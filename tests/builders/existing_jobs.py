"""Own jobs as Terraform publishes them, and queues and definitions that it did not make."""

import json

from batchmark.core.config import ComputeEnvironments, Target
from batchmark.core.own_jobs import parse_own_jobs
from batchmark.runs.own_jobs.sides import FoundSide, Side
from tests.builders.leaks import ARN
from tests.builders.watched_jobs import BLOCKING
from tests.stand_ins import diagnosis_answers

COMMAND = ["convert", "--size", "Ref::size", "--quality=Ref::quality"]


def own_jobs(**changes):
    job = {
        "command": COMMAND,
        "parameters": {"quality": "90", "unused": "1"},
        "axis": {"parameter": "size", "sizes": [64, 256]},
        "job_definitions": {"c5.2xlarge": "arn:own-cpu:1", "g5.xlarge": "arn:own-cuda:1"},
        "timeout_seconds": 600,
        "attempts": 2,
    }
    jobs = {"thumbnails": job | changes}
    return parse_own_jobs(
        json.dumps({"schema_version": 1, "name": "batchmark", "region": "us-east-1", "jobs": jobs})
    )


def side(name="old", **changes):
    fields = {"name": name, "job_queue": "images", "job_definition": "resize"}
    return Side.model_validate(fields | changes)


def found(name="old", **changes):
    """A side as it is found."""
    fields = {
        "side": side(name, parameters={"size": "1", "quality": "90"}),
        "command": tuple(COMMAND),
        "parameters": {"size": "1", "quality": "90"},
        "types": ("c5.xlarge", "c5.4xlarge"),
    } | changes
    target = Target(
        device="cpu",
        instance_type=fields["types"][0],
        vcpus=2,
        memory_mib=2048,
        gpus=0,
        job_queue=f"{ARN}:job-queue/images",
        on_demand_queue=None,
        job_definition=f"{ARN}:job-definition/resize:7",
        compute_environments=ComputeEnvironments(spot="images-spot", on_demand=None),
        timeout_seconds=900,
        attempts=1,
        allow_cpu_fallback=False,
    )
    return FoundSide(target=target, **fields)


def queue(**changes):
    """As DescribeJobQueues has it."""
    order = [
        {"order": 2, "computeEnvironment": f"{ARN}:compute-environment/plain"},
        {"order": 1, "computeEnvironment": f"{ARN}:compute-environment/cheap"},
    ]
    named = {"jobQueueName": "images", "jobQueueArn": f"{ARN}:job-queue/images"}
    return diagnosis_answers.queue(**named | {"computeEnvironmentOrder": order} | changes)


def environment(name, **changes):
    """As DescribeComputeEnvironments has it."""
    resources = {
        "type": "SPOT" if name == "cheap" else "EC2",
        "maxvCpus": 64,
        "subnets": [],
        "instanceTypes": ["c5"],
    }
    arn = {"computeEnvironmentArn": f"{ARN}:compute-environment/{name}"}
    resources |= changes.pop("resources", {})
    return diagnosis_answers.environment(name, resources=resources, **arn | changes)


def definition(**changes):
    """As DescribeJobDefinitions has it."""
    container = diagnosis_answers.container(2, 2048, 0, "images/resize:5")
    container |= BLOCKING
    found = {
        "jobDefinitionName": "resize",
        "jobDefinitionArn": f"{ARN}:job-definition/resize:7",
        "revision": 7,
        "status": "ACTIVE",
        "type": "container",
        "parameters": {"quality": "90", "size": "1"},
        "timeout": {"attemptDurationSeconds": 900},
        "containerProperties": {**container, "command": COMMAND, **changes.pop("container", {})},
    }
    return found | changes


def instance_type(name, vcpus, memory_mib, gpus=0):
    """As DescribeInstanceTypes has it."""
    return diagnosis_answers.instance_type(name, vcpus, memory_mib, gpus)
