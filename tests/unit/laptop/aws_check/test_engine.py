"""Whether the job image can be had here, known before anything is made."""

import shutil
from types import SimpleNamespace

import pytest

from laptop.aws_check import engine
from laptop.errors import LaptopError
from tests.builders.files import program


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
