"""Clients that are not ours: the AWS CLI, and Airflow's own operators."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from airflow.providers.amazon.aws.hooks.batch_client import BatchClientHook
from airflow.providers.amazon.aws.operators.batch import (
    BatchCreateComputeEnvironmentOperator,
    BatchOperator,
)
from airflow.providers.amazon.aws.sensors.batch import (
    BatchComputeEnvironmentSensor,
    BatchJobQueueSensor,
)

from tests.clouds import DEADLINE_SECONDS

# Fields that AWS has replaced, and that documents on the web still have.
OLD_DEFINITION = {
    "type": "container",
    "containerProperties": {
        "image": "busybox",
        "vcpus": 1,
        "memory": 128,
        "command": ["echo", "Ref::greeting"],
        "environment": [{"name": "LEVEL", "value": "debug"}],
    },
    "parameters": {"greeting": "hello"},
    "retryStrategy": {"attempts": 2},
}


@pytest.fixture
def environment(cloud, monkeypatch):
    """Variables that lead every client to the local cloud."""
    ours = {
        "AWS_ENDPOINT_URL": cloud.endpoint_url,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": cloud.secret,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_PAGER": "",
    }
    for name, value in ours.items():
        monkeypatch.setenv(name, value)
    return {**os.environ, **ours}


@pytest.fixture
def cli(environment):
    def run(*arguments, code=0):
        done = subprocess.run(
            [sys.executable, "-m", "awscli", "batch", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stderr if code else json.loads(done.stdout or "{}")

    return run


def test_the_cli_registers_submits_and_describes_from_json(cloud, cli, tmp_path):
    document = tmp_path / "definition.json"
    document.write_text(json.dumps({"jobDefinitionName": cloud.name("cli"), **OLD_DEFINITION}))
    registered = cli("register-job-definition", "--cli-input-json", f"file://{document}")
    submit = ("submit-job", "--job-queue", cloud.queue)
    submit += ("--job-definition", registered["jobDefinitionArn"])
    first = cli(*submit, "--job-name", "first")["jobId"]
    after = f"jobId={first},type=SEQUENTIAL"
    second = cli(*submit, "--job-name", "second", "--depends-on", after)["jobId"]
    assert cloud.output(second) == ["hello"]
    (job,) = cli("describe-jobs", "--jobs", second)["jobs"]
    assert (job["container"]["vcpus"], job["container"]["memory"]) == (1, 128)
    assert job["stoppedAt"] == job["attempts"][-1]["stoppedAt"]


def test_the_cli_names_what_is_missing(cloud, cli):
    refused = cli("get-job-queue-snapshot", "--job-queue", cloud.queue, code=255)
    assert "(ClientException)" in refused
    assert "The local cloud has no GetJobQueueSnapshot" in refused


def test_airflows_own_operators_run_a_job_in_an_environment_of_theirs(
    cloud, environment, monkeypatch
):
    monkeypatch.setattr(BatchClientHook, "DEFAULT_DELAY_MIN", 0)
    monkeypatch.setattr(BatchClientHook, "DEFAULT_DELAY_MAX", 0.2)
    context = {"ti": SimpleNamespace(xcom_push=lambda **_: None)}
    connection = {"aws_conn_id": None, "region_name": "us-east-1"}
    ec2 = cloud.client("ec2")
    groups = ec2.describe_security_groups()["SecurityGroups"]
    resources = {
        "type": "FARGATE",
        "maxvCpus": 4,
        "subnets": [subnet["SubnetId"] for subnet in ec2.describe_subnets()["Subnets"]],
        "securityGroupIds": [group["GroupId"] for group in groups],
    }
    made = cloud.name("of-airflow")
    BatchCreateComputeEnvironmentOperator(
        task_id="create",
        compute_environment_name=made,
        environment_type="MANAGED",
        state="ENABLED",
        compute_resources=resources,
        **connection,
    ).execute(context)
    sensed = BatchComputeEnvironmentSensor(task_id="e", compute_environment=made, **connection)
    assert sensed.poke(context)
    queue = cloud.create_queue(compute_environment=made)
    assert BatchJobQueueSensor(task_id="q", job_queue=queue, **connection).poke(context)
    job_id = BatchOperator(
        task_id="job",
        job_name="of-airflow",
        job_queue=queue,
        job_definition=cloud.define(["sh", "-c", "echo $WORD"]),
        container_overrides={"environment": [{"name": "WORD", "value": "overridden"}]},
        retry_strategy={"attempts": 1},
        deferrable=False,
        **connection,
    ).execute(context)
    assert cloud.output(job_id) == ["overridden"]

    cloud.batch.update_job_queue(jobQueue=queue, state="DISABLED")
    cloud.batch.delete_job_queue(jobQueue=queue)
    cloud.batch.update_compute_environment(computeEnvironment=made, state="DISABLED")
    cloud.batch.delete_compute_environment(computeEnvironment=made)
