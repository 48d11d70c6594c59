"""A local cloud as a real process, and boto3 clients that talk to it over HTTP."""

import configparser
import itertools
import os
import select
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import boto3
import httpx
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

from tests.paths import ROOT
from tests.waiting import PATIENCE_SECONDS, wait_for
from tests.warm import Fork

FINISHED = {"SUCCEEDED", "FAILED"}


class SignedCalls(httpx.Auth):
    """Signs calls of the local cloud's own paths as clients sign those of AWS."""

    requires_request_body = True

    def __init__(self, secret: str) -> None:
        self._signer = SigV4Auth(Credentials("test", secret), "local-cloud", "us-east-1")

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        signed = AWSRequest(request.method, str(request.url), data=request.content)
        self._signer.add_auth(signed)
        request.headers.update(dict(signed.headers))
        yield request


def control_of(url: str, secret: str) -> httpx.Client:
    """Controls a local cloud's faults, and moto's reset."""
    auth = SignedCalls(secret)
    return httpx.Client(base_url=url, auth=auth, trust_env=False, timeout=PATIENCE_SECONDS)


class Cloud:
    def __init__(
        self, process: subprocess.Popen[str] | Fork, endpoint_url: str, credentials: Path
    ) -> None:
        self.process = process
        self.endpoint_url = endpoint_url
        self.credentials = credentials
        profile = configparser.RawConfigParser()
        profile.read(credentials)
        self.secret = profile.get("default", "aws_secret_access_key", fallback="any")
        self._clients: dict[str, Any] = {}
        self._submitted: list[str] = []
        self._numbers = itertools.count()
        self.client("iam").create_instance_profile(InstanceProfileName="ecs")
        self.compute_environment = self.create_compute_environment("test-environment")
        self.queue = self.create_queue()

    def client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = boto3.client(
                service,
                endpoint_url=self.endpoint_url,
                region_name="us-east-1",
                aws_access_key_id="test",
                aws_secret_access_key=self.secret,
                config=Config(retries={"max_attempts": 0}, s3={"addressing_style": "path"}),
            )
        return self._clients[service]

    def control(self) -> httpx.Client:
        return control_of(self.endpoint_url, self.secret)

    def reset(self) -> None:
        """moto's reset of everything."""
        with self.control() as control:
            control.post("/moto-api/reset").raise_for_status()

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    @property
    def batch(self) -> Any:
        return self.client("batch")

    def name(self, prefix: str) -> str:
        return f"{prefix}-{next(self._numbers)}"

    def create_compute_environment(self, name: str, max_vcpus: int = 64, **resources: Any) -> str:
        ec2 = self.client("ec2")
        answer = self.batch.create_compute_environment(
            computeEnvironmentName=name,
            type="MANAGED",
            computeResources={
                "type": "EC2",
                "minvCpus": 0,
                "maxvCpus": max_vcpus,
                "instanceTypes": ["g4dn.xlarge"],
                "subnets": [ec2.describe_subnets()["Subnets"][0]["SubnetId"]],
                "securityGroupIds": [
                    ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]
                ],
                "instanceRole": "ecs",
                **resources,
            },
        )
        return answer["computeEnvironmentArn"]

    def create_queue(
        self, priority: int = 1, compute_environment: str | None = None, **fields: Any
    ) -> str:
        answer = self.batch.create_job_queue(
            jobQueueName=self.name("queue"),
            priority=priority,
            state="ENABLED",
            computeEnvironmentOrder=[
                {"order": 1, "computeEnvironment": compute_environment or self.compute_environment}
            ],
            **fields,
        )
        return answer["jobQueueArn"]

    def define(
        self,
        command: list[str],
        *,
        vcpus: float = 1,
        memory: int = 16,
        gpus: int = 0,
        container: dict[str, Any] | None = None,
        name: str | None = None,
        **fields: Any,
    ) -> str:
        """Register a job definition of one container; return its ARN."""
        answer = self.batch.register_job_definition(
            jobDefinitionName=name or self.name("definition"),
            type="container",
            containerProperties={
                **self.container(command, vcpus=vcpus, memory=memory, gpus=gpus),
                **(container or {}),
            },
            **fields,
        )
        return answer["jobDefinitionArn"]

    def container(
        self, command: list[str], *, vcpus: float = 1, memory: int = 16, gpus: int = 0
    ) -> dict[str, Any]:
        resources = [
            {"type": "VCPU", "value": f"{vcpus:g}"},
            {"type": "MEMORY", "value": str(memory)},
            *([{"type": "GPU", "value": str(gpus)}] if gpus else []),
        ]
        return {"image": "image", "command": command, "resourceRequirements": resources}

    def submit(self, definition: str, queue: str | None = None, **fields: Any) -> str:
        answer = self.batch.submit_job(
            jobName=fields.pop("jobName", "job"),
            jobQueue=queue or self.queue,
            jobDefinition=definition,
            **fields,
        )
        self._submitted.append(answer["jobId"])
        return answer["jobId"]

    def end_jobs(self) -> None:
        """Terminate those of the submitted jobs that have not ended."""
        while known := self._submitted[:100]:
            for job in self.batch.describe_jobs(jobs=known)["jobs"]:
                if job["status"] not in FINISHED:
                    self.batch.terminate_job(jobId=job["jobId"], reason="its test is over")
            del self._submitted[:100]

    def shell(self, script: str, **fields: Any) -> str:
        """Submit a shell script as a job; return its id."""
        return self.submit(self.define(["sh", "-c", script]), **fields)

    def describe(self, job_id: str) -> dict[str, Any]:
        return self.batch.describe_jobs(jobs=[job_id])["jobs"][0]

    def wait_for(self, job_id: str, *statuses: str) -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            job = self.describe(job_id)
            if job["status"] in statuses:
                return job
            assert job["status"] not in FINISHED, job
            return None

        return wait_for(reached, f"{' or '.join(statuses)} of job {job_id}")

    def finish(self, job_id: str) -> dict[str, Any]:
        return self.wait_for(job_id, *FINISHED)

    def lines(self, job: dict[str, Any]) -> list[str]:
        group = (
            job["container"]
            .get("logConfiguration", {})
            .get("options", {})
            .get("awslogs-group", "/aws/batch/job")
        )
        events = self.client("logs").get_log_events(
            logGroupName=group,
            logStreamName=job["container"]["logStreamName"],
            startFromHead=True,
        )["events"]
        return [event["message"] for event in events]

    def output(self, job_id: str) -> list[str]:
        job = self.finish(job_id)
        assert job["status"] == "SUCCEEDED", (job["statusReason"], self.lines(job))
        return self.lines(job)


def command_line(*options: str, module: str = "local_cloud") -> list[str]:
    return [sys.executable, "-m", module, *options]


def ready(process: subprocess.Popen[str] | Fork) -> tuple[str, Path]:
    """Wait for the lines that say where the local cloud listens, and where its credentials are."""
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], PATIENCE_SECONDS)
    assert readable, "the local cloud did not get ready"
    line = process.stdout.readline()
    assert line.startswith("local cloud ready on http://"), line
    return line.split()[4], Path(process.stdout.readline().rstrip("\n").partition("FILE=")[2])


@contextmanager
def running(
    *options: str, module: str = "local_cloud", folder: Path = ROOT, log: IO[str] | None = None
) -> Iterator[Cloud]:
    """A local cloud in this folder, whose stderr goes to `log` (none: to the tests')."""
    process = Fork(
        module,
        ["--port", "0", *options],
        folder=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "SECRET_OF_THE_SERVER": "must not reach a job",
        },
        stderr=log,
    )
    cloud = None
    try:
        cloud = Cloud(process, *ready(process))
        yield cloud
    finally:
        if cloud is not None:
            cloud.close()
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_SECONDS)
        process.stdout.close()
