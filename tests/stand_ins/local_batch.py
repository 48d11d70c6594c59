"""The local cloud's Batch without a server: its HTTP answers, and containers that end when told."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from moto.batch.models import batch_backends
from moto.core.base_backend import BackendDict
from moto.ec2.exceptions import InvalidSubnetIdError
from moto.iam.models import iam_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.test import Client

from local_cloud.batch.api import models
from local_cloud.batch.running.runtime import Exit
from local_cloud.batch.scheduling.scheduler import Scheduler
from local_cloud.clock import now_milliseconds
from local_cloud.gaps import iam as iam_gap
from local_cloud.settings import Settings
from tests.waiting import wait_for

ACCOUNT, REGION = "123456789012", "us-east-1"
URL = "http://127.0.0.1:5000"
SUBNET, SECURITY_GROUP = "subnet-1", "sg-1"

iam_gap.fill()


def signed(service="batch"):
    """The headers of a request to a service."""
    credential = f"test/20261121/{REGION}/{service}/aws4_request"
    return {"Authorization": f"AWS4-HMAC-SHA256 Credential={credential}, Signature=0"}


def requirements(**amounts):
    """What a container needs: VCPU, MEMORY, GPU."""
    return [{"type": kind, "value": str(amount)} for kind, amount in amounts.items()]


class Network:
    """One subnet and one security group: moto's take half a second to make."""

    def get_subnet(self, subnet_id):
        if subnet_id != SUBNET:
            raise InvalidSubnetIdError(subnet_id)
        return SimpleNamespace(availability_zone=f"{REGION}a")

    def get_security_group_from_id(self, group_id):
        return group_id if group_id == SECURITY_GROUP else None


class Containers:
    """A runtime: containers run until the test lets all of them end, or are asked to stop."""

    shares_network = True

    def __init__(self):
        self.may_end = threading.Event()
        self.started = []  # the names of their jobs, in order
        self.launches = []

    def start(self, launch):
        self.launches.append(launch)
        self.started.append(launch.job.submission.name)
        stopped = threading.Event()

        def wait():
            while not self.may_end.wait(0.001):
                if stopped.is_set():
                    return Exit(143)
            return Exit(0)

        return SimpleNamespace(
            started_at=now_milliseconds(),
            address=None,
            ask_to_stop=stopped.set,
            kill=stopped.set,
            wait=wait,
            remove=lambda: None,
        )

    def close(self):
        """Nothing is left to remove."""


@cache
def application():
    return DomainDispatcherApplication(create_backend_app)


class LocalBatch:
    """Calls are named as in AWS's API; `call` takes a request's fields and gives the answer's."""

    def __init__(self, scheduler, containers):
        self.scheduler = scheduler
        self.containers = containers
        self.client = Client(application())

    def answer(self, operation, fields):
        """The status and body of an answer."""
        answered = self.client.post(f"/v1/{operation.lower()}", json=fields, headers=signed())
        return answered.status_code, answered.text

    def call(self, operation, **fields):
        status, text = self.answer(operation, fields)
        assert status == 200, text
        return json.loads(text or "{}")

    def refusal(self, operation, **fields):
        """The message of a ClientException."""
        status, text = self.answer(operation, fields)
        assert status == 400, text
        refused = json.loads(text)
        assert refused["__type"] == "ClientException"
        return refused["message"]

    def environment(self, name="environment", **resources):
        self.call(
            "CreateComputeEnvironment",
            computeEnvironmentName=name,
            type="MANAGED",
            computeResources=self.resources(**resources),
        )

    def role(self, name):
        """The ARN of a new role."""
        return iam_backends[ACCOUNT]["aws"].create_role(name, "{}", "/", None, "", [], None).arn

    def resources(self, kind="EC2", **fields):
        """The computeResources of an environment, with all that they name."""
        iam = iam_backends[ACCOUNT]["aws"]
        if not iam.instance_profiles:
            iam.create_instance_profile("ecs", "/", [])
        on_instances = {"minvCpus": 0, "instanceTypes": ["optimal"], "instanceRole": "ecs"}
        return {
            "type": kind,
            "maxvCpus": 4,
            "subnets": [SUBNET],
            "securityGroupIds": [SECURITY_GROUP],
            **({} if "FARGATE" in kind else on_instances),
            **fields,
        }

    def queue(self, name="queue", environment="environment", **fields):
        order = [{"order": 1, "computeEnvironment": environment}]
        fields = {"priority": 1, "state": "ENABLED", "computeEnvironmentOrder": order} | fields
        self.call("CreateJobQueue", jobQueueName=name, **fields)
        return name

    def define(self, name="definition", container=None, *, needs=(), **fields):
        """A definition whose container is a plain one, or needs more or has other fields."""
        resources = requirements(**{"VCPU": 1, "MEMORY": 4} | dict(needs))
        plain = {"image": "image", "command": ["true"], "resourceRequirements": resources}
        return self.call(
            "RegisterJobDefinition",
            jobDefinitionName=name,
            type="container",
            containerProperties=plain | (container or {}),
            **fields,
        )["jobDefinitionArn"]

    def submit(self, name="job", queue="queue", definition="definition", **fields):
        request = {"jobName": name, "jobQueue": queue, "jobDefinition": definition}
        return self.call("SubmitJob", **request, **fields)["jobId"]

    def refused_submission(self, **fields):
        """The message that refuses a job with these fields."""
        request = {"jobName": "job", "jobQueue": "queue", "jobDefinition": "definition"}
        return self.refusal("SubmitJob", **request | fields)

    def wait_for_starts(self, number):
        wait_for(lambda: len(self.containers.started) >= number, f"{number} starts", every=0.002)

    def finish(self, job_id):
        """Let all containers end, and describe the job once it has ended, too."""
        self.containers.may_end.set()
        job = self.scheduler_job(job_id)
        wait_for(lambda: job.finished, f"end of job {job_id}", every=0.002)
        return self.describe(job_id)

    def scheduler_job(self, job_id):
        return batch_backends[ACCOUNT][REGION].find_job(job_id)

    def describe(self, job_id):
        (job,) = self.call("DescribeJobs", jobs=[job_id])["jobs"]
        return job


@contextmanager
def local_batch(vcpus=4, gpus=0):
    """An empty Batch, in place of moto's, with a pool of 4 GiB."""
    containers = Containers()
    settings = Settings(
        URL, URL, gpus=gpus, vcpus=vcpus, memory_mib=4096, job_dir=Path(), stop_grace_seconds=0.0
    )
    scheduler = Scheduler(settings, containers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_backends, "backend", batch_backends.backend)
        patch.setattr(BackendDict, "reset", vars(BackendDict)["reset"])
        for name in ("settings", "scheduler", "event_sender"):
            patch.setattr(models.JobsBatchBackend, name, None, raising=False)
        patch.setattr(models.JobsBatchBackend, "ec2_backend", Network())
        BackendDict.reset()
        models.replace_motos(settings, scheduler)
        yield LocalBatch(scheduler, containers)
        containers.may_end.set()
        scheduler.close()
        BackendDict.reset()
