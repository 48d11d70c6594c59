"""The job as Batch starts it: a process of its own, how it ended, and what it published."""

import contextlib
import os
import re
import subprocess
import sys

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.paths import ROOT
from tests.waiting import PATIENCE_SECONDS

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@pytest.fixture
def start_job(tmp_path):
    """Start `python -m batchmark_job run` with these arguments; ended after the test.

    What it prints is in its pipes, or in the file `log`.
    """
    started: list[subprocess.Popen[str]] = []

    def start(*arguments, log=None, **environment):
        variables = {name: v for name, v in os.environ.items() if not name.startswith("AWS_")}
        with log.open("w") if log else contextlib.nullcontext(subprocess.PIPE) as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "batchmark_job", "run", *arguments],
                cwd=ROOT / "job_container",
                env=variables | CREDENTIALS | {"TMPDIR": str(tmp_path)} | environment,
                stdout=out,
                stderr=subprocess.STDOUT if log else subprocess.PIPE,
                text=True,
            )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def moto_client():
    """Makes boto3 clients of one moto server."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with contextlib.ExitStack() as clients:

        def client(service):
            session = boto3.Session("test", "test", region_name="us-east-1")
            made = session.client(service, endpoint_url=f"http://{host}:{port}")
            return clients.enter_context(contextlib.closing(made))

        yield client
    server.stop()


NAMESPACE = "Batchmark"


def ended(process, code=0):
    """What it printed, on standard output and on standard error; it ends with this code."""
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == code, err
    return out, err


def metrics_of(cloudwatch, target):
    dimensions = [{"Name": "Target", "Value": target}]
    answer = cloudwatch.list_metrics(Namespace=NAMESPACE, Dimensions=dimensions)
    return {metric["MetricName"] for metric in answer["Metrics"]}


def skip_where_too_slow_to_publish(out):
    """The job gives publishing a few seconds, which a starved machine may not have."""
    if re.search(r"metrics not published: (timed out after|\w*TimeoutError)", out):
        pytest.skip("the machine is too busy to publish within the job's limit")
