"""moto's own server in the place of a deployment's local cloud."""

import json

import httpx
import pytest
from moto.server import ThreadedMotoServer

from laptop.processes import free_port
from tests.builders.installations import published

BUCKET = "results"


@pytest.fixture(scope="module")
def server_port():
    port = free_port()
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    yield port
    server.stop()


@pytest.fixture
def cloud_port(server_port):
    """The port of an empty local cloud: what an earlier mock in this process held is gone, too."""
    httpx.post(f"http://127.0.0.1:{server_port}/moto-api/reset").raise_for_status()
    return server_port


def make_bucket(aws):
    """Make the bucket and publish its name, as Terraform does."""
    aws.client("s3").create_bucket(Bucket=BUCKET)
    told = json.dumps(published(bucket=BUCKET, targets={}))
    aws.client("ssm").put_parameter(Name="/airflow/variables/batchmark", Value=told, Type="String")
