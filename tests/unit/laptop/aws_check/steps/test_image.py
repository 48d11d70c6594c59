"""The job image: whether it can be had here, and how it gets into the repository."""

import base64
import json
import re
import shutil
import subprocess
from dataclasses import replace
from types import SimpleNamespace

import pytest

from laptop.aws_check import engine
from laptop.aws_check import engine as engine_module
from laptop.aws_check.step import NotCheckedError, StepError
from laptop.aws_check.steps import image
from laptop.errors import LaptopError
from tests.builders.files import program
from tests.paths import ROOT

REGISTRY = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
REPOSITORY = f"{REGISTRY}/batchmark-check-job"
GPU, CPU = (f"sha256:{digit * 64}" for digit in "ab")


@pytest.fixture
def check(check_of):
    return applied(check_of())


def applied(check):
    outputs = {"ecr_repository_url": REPOSITORY}
    check.__dict__["terraform"] = SimpleNamespace(outputs=lambda: outputs)
    return check


def test_digests_are_read_from_what_publish_says():
    text = (ROOT / "job_container" / "publish.sh").read_text()
    pushed = re.search(r"terraform apply -var image_tag=%s -var cpu_image_tag=%s", text)
    there = re.search(r' image_tag     = .*"\n  cpu_image_tag = .*"', text.replace("\\", ""))
    said = pushed[0].replace("%s", GPU, 1).replace("%s", CPU, 1)
    assert image.digests(said) == (GPU, CPU)
    again = there[0].replace("$gpu_digest", GPU).replace("$cpu_digest", CPU)
    assert image.digests(again) == (GPU, CPU)
    with pytest.raises(StepError, match="reported no image digests"):
        image.digests("docker: not found")


NAMED = f"echo '  terraform apply -var image_tag={GPU} -var cpu_image_tag={CPU}'"
THERE = f"""printf 'exists already:\\n  image_tag     = "{GPU}"\\n  cpu_image_tag = "{CPU}"\\n'"""


@pytest.mark.parametrize(
    "lines",
    [(f'[ "$*" = "--repository {REPOSITORY}" ] || exit 2', NAMED), (THERE, "exit 1")],
    ids=["pushed", "there already"],
)
def test_what_was_built_is_kept_by_its_digests_and_what_was_not_says_why(
    check, monkeypatch, tmp_path, lines
):
    script = program(
        tmp_path / "publish.sh", "echo 2 files differ from the last commit >&2; exit 1"
    )
    monkeypatch.setattr(image, "PUBLISH", script)
    with pytest.raises(LaptopError, match="2 files differ"):
        image.image(check)
    program(script, "\n".join(lines))
    assert image.image(check).text == f"{GPU}, for CPU targets {CPU}"
    assert json.loads((check.folder / image.FILE).read_text()) == [GPU, CPU]


@pytest.fixture
def docker(monkeypatch):
    """The engine's program; what it was asked, and one command that fails."""
    engine = SimpleNamespace(asked=[], failing=None)

    def run(argv, *, input, **_):  # noqa: A002 - as of subprocess
        engine.asked.append((*argv[1:], input))
        failed = argv[1] == engine.failing
        return subprocess.CompletedProcess(argv, int(failed), "", "denied" if failed else "")

    monkeypatch.setattr(engine_module.subprocess, "run", run)
    return engine


def token(clients):
    answer = {"authorizationToken": base64.b64encode(b"AWS:secret").decode()}
    clients.answer("ecr", "get_authorization_token", {"authorizationData": [answer]})


def pushed(clients, digest=GPU):
    asked = {"repositoryName": "batchmark-check-job", "imageIds": [{"imageTag": "check"}]}
    if digest:
        answer = {"imageDetails": [{"imageDigest": digest}]}
        clients.answer("ecr", "describe_images", answer, asked)
    else:
        clients.refuse("ecr", "describe_images", "ImageNotFoundException")


def test_an_image_of_the_users_is_copied_for_all_targets_once_as_tags_are_immutable(
    check, clients, docker
):
    pushed(clients, None)
    token(clients)
    pushed(clients)
    theirs = applied(replace(check, image="job:1"))
    assert image.image(theirs).text == f"{GPU}, for CPU targets the same"
    assert docker.asked == [
        ("pull", "--platform", "linux/amd64", "job:1", ""),
        ("login", "--username", "AWS", "--password-stdin", REGISTRY, "secret"),
        ("tag", "job:1", f"{REPOSITORY}:check", ""),
        ("push", f"{REPOSITORY}:check", ""),
        ("logout", REGISTRY, ""),
    ]
    docker.asked.clear()
    pushed(clients)
    assert image.image(theirs).text.startswith(GPU)
    assert docker.asked == []


@pytest.mark.parametrize(
    ("failing", "told"),
    [
        ("tag", "docker tag failed: denied"),
        ("push", "docker push failed: denied"),
        (None, "job:check was pushed, but ECR does not list it"),
    ],
)
def test_a_push_that_fails_says_why_and_no_login_stays(check, clients, docker, failing, told):
    pushed(clients, None)
    token(clients)
    pushed(clients, None)
    docker.failing = failing
    with pytest.raises(LaptopError, match=told):
        image.image(applied(replace(check, image="job:1")))
    assert docker.asked[-1] == ("logout", REGISTRY, "")


def test_a_local_cloud_gets_a_stand_in_and_the_rest_goes_on(check_of, monkeypatch, clients):
    monkeypatch.setattr(image, "publish_stand_in", lambda *_: None)
    check = applied(check_of(on_aws=False))
    with pytest.raises(NotCheckedError, match="just a stand-in") as reason:
        image.image(check)
    assert reason.value.passes
    assert json.loads((check.folder / image.FILE).read_text()) == ["check", None]


@pytest.mark.parametrize(
    ("images", "cuda", "cpu"),
    [([GPU, CPU], f"@{GPU}", f"@{CPU}"), (["check", None], ":check", ":check")],
)
def test_the_second_apply_names_the_images_and_an_own_job(check, monkeypatch, images, cuda, cpu):
    pinned = {}
    (check.folder / image.FILE).write_text(json.dumps(images))
    monkeypatch.setattr(type(check), "pin", lambda _, **inputs: pinned.update(inputs))
    monkeypatch.setattr(image, "apply", lambda _: "applied")
    assert image.apply_images(check) == "applied"
    assert (pinned["image_tag"], pinned["cpu_image_tag"]) == tuple(images)
    job = pinned["own_jobs"][image.OWN_JOB]
    assert job["images"] == {"cuda": f"{REPOSITORY}{cuda}", "cpu": f"{REPOSITORY}{cpu}"}
    assert job["attempts"] == 1


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Docker and publish.sh as scripts, which end with these codes."""
    machine = SimpleNamespace(free=20e9, images=tmp_path / "images")
    machine.images.mkdir()

    def has(*, docker="exit 0", publish="exit 0"):
        program(tmp_path / "docker", f'echo "{machine.images}"\n{docker}')
        program(tmp_path / "publish.sh", f'[ "$*" = --check ] || exit 9\n{publish}')

    machine.has = has
    has()
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(engine, "PUBLISH", tmp_path / "publish.sh")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=machine.free))
    return machine


@pytest.mark.parametrize("image", [None, "job:1"])
def test_a_machine_is_refused_only_if_no_engine_answers(machine, monkeypatch, tmp_path, image):
    engine.refuse_without_image(image)
    machine.has(docker="echo 'Is the docker daemon running?' >&2; exit 1")
    with pytest.raises(LaptopError, match=r"docker \w+ failed: Is the docker daemon running\?"):
        engine.refuse_without_image(image)
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    with pytest.raises(LaptopError, match=r"docker is needed for the job image .*: install it"):
        engine.refuse_without_image("job:1")


def test_what_publish_refuses_and_a_full_disk_are_refused_unless_an_image_is_given(machine):
    machine.has(publish="echo 'publish.sh: 2 files differ' >&2; exit 1")
    differing = r"publish.sh: 2 files differ\. Alternatively, specify an existing"
    with pytest.raises(LaptopError, match=differing):
        engine.refuse_without_image(None)
    engine.refuse_without_image("job:1")
    machine.has()
    machine.free = 5e9
    with pytest.raises(LaptopError, match=r"images has 5 GB free, .* takes about 14 GB: free some"):
        engine.refuse_without_image(None)
    engine.refuse_without_image("job:1")
    machine.images.rmdir()  # as of an engine in a virtual machine
    engine.refuse_without_image(None)
