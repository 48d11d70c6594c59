"""What outlives the local cloud's container; its place is taken by moto's own server."""

from __future__ import annotations

import json
from contextlib import closing

import httpx
import pytest
from moto.server import ThreadedMotoServer

from laptop.aws import AwsClients
from laptop.cloud_state import CloudState
from laptop.compose import Deployment, name_job_image
from laptop.errors import LaptopError
from laptop.processes import free_port
from laptop.session import Clock

BUCKET = "results"
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/batchmark-job:0.1.0"
PUBLISHED = {
    "schema_version": 1,
    "name": "batchmark",
    "region": "us-east-1",
    "bucket": BUCKET,
    "topic_arn": "arn:topic",
    "log_group": "/aws/batch/batchmark",
    "targets": {},
}


class Engine:
    """What Compose and Docker tell of the local cloud's container and of the images."""

    def __init__(self, deployment):
        self.deployment = deployment
        self.env = {}
        self.starts = 1
        self.runs = True
        self.images = [IMAGE]
        self.tagged = []

    def services(self):
        return {"local-cloud": {"ID": "c1", "State": "running" if self.runs else "exited"}}

    def docker(self, *arguments):
        if arguments[0] == "tag":
            self.tagged.append(arguments[1:])
        return "\n".join(self.images) if arguments[0] == "image" else f"start {self.starts}\n"


class Cloud(CloudState):
    """Terraform's work is done by hand."""

    applies = 0

    def _apply(self, clock):
        self.applies += 1
        with closing(AwsClients(self)) as aws:
            aws.client("s3").create_bucket(Bucket=BUCKET)
            aws.client("ecr").create_repository(repositoryName="batchmark-job")
            aws.client("ssm").put_parameter(
                Name="/airflow/variables/batchmark",
                Value=json.dumps(PUBLISHED),
                Type="String",
                Overwrite=True,
            )
        return IMAGE


class CloudThatFailsLate(Cloud):
    """Its bucket is there and empty when something goes wrong."""

    def _apply(self, clock):
        super()._apply(clock)
        raise LaptopError("the disk is full")


@pytest.fixture
def server():
    running = ThreadedMotoServer(ip_address="127.0.0.1", port=free_port(), verbose=False)
    running.start()
    yield running
    httpx.post(f"http://127.0.0.1:{running._port}/moto-api/reset")
    running.stop()


@pytest.fixture
def engine(server, tmp_path):
    return Engine(Deployment(cloud_port=server._port, folder=tmp_path))


def restart(engine):
    """The local cloud's container starts anew: all that it knew is gone."""
    httpx.post(f"{engine.deployment.endpoint}/moto-api/reset").raise_for_status()
    engine.starts += 1


def put(engine, key, body):
    with closing(AwsClients(CloudState(engine))) as aws:
        aws.client("s3").put_object(Bucket=BUCKET, Key=key, Body=body)


def contents(engine):
    with closing(AwsClients(CloudState(engine))) as aws:
        s3 = aws.client("s3")
        listed = s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])
        return {
            found["Key"]: s3.get_object(Bucket=BUCKET, Key=found["Key"])["Body"].read()
            for found in listed
        }


def test_results_come_back_in_the_next_cloud(engine):
    Cloud(engine).fill(Clock())
    put(engine, "runs/a/report.json", b"{}")
    CloudState(engine).save(Clock())
    restart(engine)
    Cloud(engine).fill(Clock())
    assert contents(engine) == {"runs/a/report.json": b"{}"}


def test_a_cloud_that_is_filled_is_left_as_it_is(engine):
    Cloud(engine).fill(Clock())
    CloudState(engine).save(Clock())
    put(engine, "runs/b/report.json", b"{}")
    again = CloudThatIsThere(engine)
    again.fill(Clock())
    assert contents(engine) == {"runs/b/report.json": b"{}"}


class CloudThatIsThere(Cloud):
    """Terraform finds everything as it should be."""

    def _apply(self, clock):
        return IMAGE


def test_a_cloud_that_was_half_filled_is_not_saved_over_the_last(engine):
    Cloud(engine).fill(Clock())
    put(engine, "runs/a/report.json", b"{}")
    CloudState(engine).save(Clock())
    restart(engine)
    with pytest.raises(LaptopError, match="disk is full"):
        CloudThatFailsLate(engine).fill(Clock())
    assert contents(engine) == {}
    CloudState(engine).save(Clock())
    restart(engine)
    Cloud(engine).fill(Clock())
    assert contents(engine) == {"runs/a/report.json": b"{}"}


def test_a_cloud_that_restarted_by_itself_is_not_saved_over_the_last(engine):
    Cloud(engine).fill(Clock())
    put(engine, "runs/a/report.json", b"{}")
    CloudState(engine).save(Clock())
    restart(engine)
    CloudState(engine).save(Clock())
    Cloud(engine).fill(Clock())
    assert contents(engine) == {"runs/a/report.json": b"{}"}


def test_a_new_cloud_begins_without_the_old_terraform_state(engine):
    Cloud(engine).fill(Clock())
    left = engine.deployment.state / "terraform.tfstate"
    left.write_text("{}")
    CloudThatIsThere(engine).fill(Clock())
    assert left.exists()
    restart(engine)
    Cloud(engine).fill(Clock())
    assert not left.exists()


def test_damaged_results_are_told_and_kept(engine):
    Cloud(engine).fill(Clock())
    put(engine, "runs/a/report.json", b"{}")
    CloudState(engine).save(Clock())
    (engine.deployment.state / "saved" / "0").write_bytes(b"[]")
    restart(engine)
    with pytest.raises(LaptopError, match=r"the content of runs/a/report.json, was changed"):
        Cloud(engine).fill(Clock())
    assert (engine.deployment.state / "saved" / "0").read_bytes() == b"[]"


def test_the_job_image_gets_the_name_that_job_definitions_have(engine):
    engine.images = ["batchmark-job:0.1.0"]
    name_job_image(engine, IMAGE)
    assert engine.tagged == [("batchmark-job:0.1.0", IMAGE)]


def test_a_job_image_of_that_name_does(engine):
    name_job_image(engine, IMAGE)
    assert engine.tagged == []


def test_a_missing_job_image_is_told(engine):
    engine.images = ["postgres:17"]
    with pytest.raises(LaptopError, match="leave out BUILD=no"):
        name_job_image(engine, IMAGE)
