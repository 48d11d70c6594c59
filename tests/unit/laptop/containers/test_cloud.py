"""What a deployment's local cloud holds; its place is taken by moto's own server."""

from __future__ import annotations

import json
from contextlib import closing, suppress
from shutil import rmtree

import httpx
import pytest
from moto.server import ThreadedMotoServer

from laptop.aws import AwsClients
from laptop.cloud_state import CloudState
from laptop.compose import Deployment
from laptop.errors import LaptopError
from laptop.job_image import name_job_image
from laptop.objects import keys
from laptop.processes import free_port
from laptop.session import Clock

BUCKET = "results"
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/batchmark-job:0.1.0"
OURS = "batchmark-job:0.1.0"
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
    """What Docker tells of volumes and images."""

    def __init__(self, deployment):
        self.deployment = deployment
        self.env = {}
        self.images = {IMAGE: "sha256:1"}
        self.clouds = []
        self.tagged = []

    def docker(self, *arguments):
        match arguments:
            case ("tag", name, new):
                if name not in self.images:
                    raise LaptopError(f"No such image: {name}")
                self.tagged.append((name, new))
                self.images[new] = self.images[name]
            case ("image", "ls", *_):
                return "".join(f"{name} {number}\n" for name, number in self.images.items())
            case ("image", "rm", name):
                del self.images[name]
            case ("volume", "ls", *_, "label=com.docker.compose.volume=cloud"):
                return "".join(f"{name}\n" for name in self.clouds)
            case _:
                raise AssertionError(arguments)
        return ""


class Cloud(CloudState):
    """Terraform's work is done by hand; `found` is the state that it began with."""

    found = None

    def _apply(self, clock):
        state = self._folder / "terraform.tfstate"
        self.found = state.read_text() if state.exists() else None
        if self.found is None:
            with closing(AwsClients(self)) as aws:
                aws.client("s3").create_bucket(Bucket=BUCKET)
                aws.client("ecr").create_repository(
                    repositoryName="batchmark-job", imageTagMutability="IMMUTABLE"
                )
                aws.client("ssm").put_parameter(
                    Name="/airflow/variables/batchmark", Value=json.dumps(PUBLISHED), Type="String"
                )
        state.write_text("all of it")
        return IMAGE


class CloudThatBreaksOff(Cloud):
    """Terraform has made something when it fails."""

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


@pytest.fixture
def filled(engine):
    Cloud(engine).fill(Clock())
    return engine


def another_volume(engine):
    httpx.post(f"{engine.deployment.endpoint}/moto-api/reset").raise_for_status()


def put(engine, key, body):
    with closing(AwsClients(CloudState(engine))) as aws:
        aws.client("s3").put_object(Bucket=BUCKET, Key=key, Body=body)


def contents(engine):
    with closing(AwsClients(CloudState(engine))) as aws:
        s3 = aws.client("s3")
        return {
            key: s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys(s3, BUCKET)
        }


def test_a_cloud_that_is_there_keeps_its_terraform_state_and_its_image(filled):
    again = Cloud(filled)
    again.fill(Clock())
    assert again.found == "all of it"
    with closing(AwsClients(again)) as aws:
        (image,) = aws.client("ecr").list_images(repositoryName="batchmark-job")["imageIds"]
    assert image["imageTag"] == "0.1.0"


def test_a_new_volume_begins_without_the_old_terraform_state(filled):
    another_volume(filled)
    again = Cloud(filled)
    again.fill(Clock())
    assert again.found is None


def test_an_apply_that_broke_off_goes_on_with_its_state(engine):
    with pytest.raises(LaptopError, match="disk is full"):
        CloudThatBreaksOff(engine).fill(Clock())
    again = Cloud(engine)
    again.fill(Clock())
    assert again.found == "all of it"


@pytest.mark.parametrize("fill", [CloudThatBreaksOff, Cloud])
def test_a_volume_whose_terraform_state_is_gone_is_told(engine, fill):
    with suppress(LaptopError):
        fill(engine).fill(Clock())
    rmtree(engine.deployment.state)
    with pytest.raises(LaptopError, match="VOLUMES=delete"):
        Cloud(engine).fill(Clock())


def test_the_state_of_another_volume_is_told_and_stays(filled, tmp_path):
    state = tmp_path / "state"
    (state / "mark").write_text("of another")
    with pytest.raises(LaptopError, match="VOLUMES=delete"):
        Cloud(filled).fill(Clock())
    assert (state / "terraform.tfstate").read_text() == "all of it"


def test_a_bucket_holds_again_what_was_copied_and_nothing_else(filled, tmp_path):
    put(filled, "runs/a/report.json", b"{}")
    assert CloudState(filled).copy_objects(tmp_path / "objects") == 1
    put(filled, "runs/a/report.json", b"[]")
    put(filled, "runs/b/report.json", b"{}")
    assert CloudState(filled).replace_objects(tmp_path / "objects") == 1
    assert contents(filled) == {"runs/a/report.json": b"{}"}


def test_the_job_image_gets_the_name_that_job_definitions_have(engine):
    engine.images = {OURS: "sha256:1"}
    name_job_image(engine, IMAGE)
    assert engine.tagged == [(OURS, IMAGE)]


def test_a_job_image_of_that_name_does(engine):
    name_job_image(engine, IMAGE)
    assert engine.tagged == []


def test_a_missing_job_image_is_told(engine):
    engine.images = {"postgres:17": "sha256:1"}
    with pytest.raises(LaptopError, match="leave out BUILD=no"):
        name_job_image(engine, IMAGE)


def test_an_image_of_the_callers_own_is_taken_or_told(engine):
    engine.env["JOB_IMAGE"] = "mine"
    with pytest.raises(LaptopError, match="JOB_IMAGE=mine: `docker pull` it first: No such image"):
        name_job_image(engine, IMAGE)
    engine.images["mine"] = "sha256:2"
    name_job_image(engine, IMAGE)
    assert engine.tagged == [("mine", IMAGE)]


def test_the_job_images_name_goes_with_the_last_cloud_and_the_image_stays(engine):
    engine.images = {OURS: "sha256:1", "postgres:17": "sha256:2"}
    Cloud(engine).fill(Clock())
    CloudState(engine).forget()
    assert engine.images == {OURS: "sha256:1", "postgres:17": "sha256:2"}
    assert not engine.deployment.state.exists()


def test_another_clouds_jobs_keep_the_name_of_their_image(engine):
    engine.images = {OURS: "sha256:1"}
    Cloud(engine).fill(Clock())
    engine.clouds = ["other_cloud"]
    CloudState(engine).forget()
    assert engine.images == {OURS: "sha256:1", IMAGE: "sha256:1"}
    assert not engine.deployment.state.exists()


def test_an_image_that_has_no_other_name_stays(filled):
    CloudState(filled).forget()
    assert filled.images == {IMAGE: "sha256:1"}


def test_without_a_filled_cloud_no_image_is_looked_for(engine):
    engine.docker = None
    CloudState(engine).forget()


def test_a_name_that_is_gone_already_is_no_error(engine):
    engine.images = {OURS: "sha256:1"}
    Cloud(engine).fill(Clock())
    del engine.images[IMAGE]
    CloudState(engine).forget()
    assert engine.images == {OURS: "sha256:1"}
