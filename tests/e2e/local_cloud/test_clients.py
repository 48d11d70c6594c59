"""A client that is not ours: the AWS CLI."""

import json
import os
import subprocess
import sys

import pytest

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
def cli(cloud):
    environment = {
        **os.environ,
        "AWS_ENDPOINT_URL": cloud.endpoint_url,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": cloud.secret,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_PAGER": "",
    }

    def run(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "awscli", "batch", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_the_cli_registers_submits_and_describes_from_json(cloud, cli, tmp_path):
    document = tmp_path / "definition.json"
    document.write_text(json.dumps({"jobDefinitionName": cloud.name("cli"), **OLD_DEFINITION}))
    registered = cli("register-job-definition", "--cli-input-json", f"file://{document}")
    submit = ("submit-job", "--job-queue", cloud.queue)
    submit += ("--job-definition", registered["jobDefinitionArn"])
    submitted = cli(*submit, "--job-name", "submitted")["jobId"]
    assert cloud.output(submitted) == ["hello"]
    (job,) = cli("describe-jobs", "--jobs", submitted)["jobs"]
    assert (job["container"]["vcpus"], job["container"]["memory"]) == (1, 128)
    assert job["stoppedAt"] == job["attempts"][-1]["stoppedAt"]
