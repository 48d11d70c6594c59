"""What a deployment's local cloud holds; its place is taken by moto's own server."""

from contextlib import closing, suppress
from shutil import rmtree

import httpx
import pytest

from laptop.aws import AwsClients
from laptop.containers.cloud import Cloud
from laptop.containers.compose import Deployment
from laptop.containers.job_image import tag_for_jobs
from laptop.containers.secret_files import make_missing
from laptop.errors import LaptopError
from laptop.session import Clock
from tests.unit.laptop.containers.conftest import make_bucket

IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/batchmark-job:0.2.0"
OURS = "batchmark-job:0.2.0"


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


@pytest.fixture
def engine(cloud_port, tmp_path):
    deployment = Deployment(cloud_port=cloud_port, folder=tmp_path)
    make_missing(deployment.secrets, database_is_there=False)
    return Engine(deployment)


def fill(engine, *, fails=False):
    """Fill the cloud, in Terraform's place by hand; the state that this began with.

    It may fail after it has made something.
    """
    found = []

    def apply(terraform, _):
        state = terraform.state
        found.append(state.read_text() if state.exists() else None)
        if found == [None]:
            with closing(AwsClients(engine.deployment.aws)) as aws:
                make_bucket(aws)
                aws.client("ecr").create_repository(
                    repositoryName="batchmark-job", imageTagMutability="IMMUTABLE"
                )
        state.write_text("all of it")
        if fails:
            raise LaptopError("the disk is full")
        return IMAGE

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("laptop.containers.cloud.apply_core_stack", apply)
        Cloud(engine).fill(Clock())
    return found[0]


@pytest.fixture
def filled(engine):
    fill(engine)
    return engine


def test_a_cloud_keeps_its_terraform_state_and_its_image_as_long_as_its_volume(filled):
    assert fill(filled) == "all of it"
    with closing(AwsClients(filled.deployment.aws)) as aws:
        (image,) = aws.client("ecr").list_images(repositoryName="batchmark-job")["imageIds"]
    assert image["imageTag"] == "0.2.0"
    httpx.post(f"{filled.deployment.endpoint}/moto-api/reset").raise_for_status()
    assert fill(filled) is None


def test_an_apply_that_broke_off_goes_on_with_its_state(engine):
    with pytest.raises(LaptopError, match="disk is full"):
        fill(engine, fails=True)
    assert fill(engine) == "all of it"


@pytest.mark.parametrize("fails", [True, False])
def test_a_volume_whose_terraform_state_is_gone_is_reported(engine, fails):
    with suppress(LaptopError):
        fill(engine, fails=fails)
    rmtree(engine.deployment.state)
    with pytest.raises(LaptopError, match="VOLUMES=delete"):
        fill(engine)


def test_the_state_of_another_volume_is_reported_and_stays(filled, tmp_path):
    state = tmp_path / "state"
    (state / "mark").write_text("of another")
    with pytest.raises(LaptopError, match="VOLUMES=delete"):
        fill(filled)
    assert (state / "terraform.tfstate").read_text() == "all of it"


@pytest.mark.parametrize(
    ("own", "there", "tagged"),
    [
        (None, OURS, [(OURS, IMAGE)]),
        (None, IMAGE, []),  # it has that name, which is enough
        ("mine", "mine", [("mine", IMAGE)]),
    ],
)
def test_the_job_image_gets_the_name_that_job_definitions_have(engine, own, there, tagged):
    engine.images = {there: "sha256:1"}
    engine.env |= {"JOB_IMAGE": own} if own else {}
    tag_for_jobs(engine, IMAGE)
    assert engine.tagged == tagged


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({}, "omit BUILD=no"),
        ({"JOB_IMAGE": "mine"}, "JOB_IMAGE=mine: run `docker pull` first: No such image"),
    ],
)
def test_a_missing_job_image_is_reported(engine, env, said):
    engine.images = {"postgres:17": "sha256:1"}
    engine.env |= env
    with pytest.raises(LaptopError, match=said):
        tag_for_jobs(engine, IMAGE)


@pytest.mark.parametrize(
    ("there", "other_clouds", "left"),
    [
        ([OURS, "postgres:17"], [], [OURS, "postgres:17"]),
        ([OURS], ["other_cloud"], [OURS, IMAGE]),  # its jobs keep the name of their image
        ([IMAGE], [], [IMAGE]),  # it has no other name
    ],
)
def test_the_job_images_name_goes_with_the_last_cloud_and_the_image_stays(
    engine, there, other_clouds, left
):
    numbers = {OURS: "sha256:1", IMAGE: "sha256:1", "postgres:17": "sha256:2"}
    engine.images = {name: numbers[name] for name in there}
    fill(engine)
    engine.clouds = other_clouds
    Cloud(engine).forget()
    assert engine.images == {name: numbers[name] for name in left}
    assert not engine.deployment.state.exists()


def test_without_an_image_or_its_name_there_is_nothing_to_untag(engine, monkeypatch):
    with monkeypatch.context() as never_filled:
        never_filled.setattr(engine, "docker", None)
        Cloud(engine).forget()
    engine.images = {OURS: "sha256:1"}
    fill(engine)
    del engine.images[IMAGE]
    Cloud(engine).forget()
    assert engine.images == {OURS: "sha256:1"}
