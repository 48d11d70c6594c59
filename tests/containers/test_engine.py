"""The engine that the other tests run on, and what is left of it."""

import json
import os
from contextlib import closing

import docker
import psutil
import pytest

from tests.containers.conftest import FOLDER
from tests.containers.debian import Packages, Unavailable
from tests.containers.host_network import bridges_in
from tests.containers.own_engine import OwnEngine, groups
from tests.containers.stand_ins import LABEL
from tests.waiting import wait_for


def test_a_stand_in_is_known_by_its_label(engine, base_images):
    for image in (base_images.python, base_images.postgres):
        labelled = LABEL in (engine.images.get(image).labels or {})
        assert labelled == base_images.stand_ins


def test_a_killed_run_is_cleaned_up_by_the_next(running_engine, tmp_path, say):
    """An engine beside the one that runs, killed as the kernel does when its tests are killed."""
    if os.geteuid() != 0:
        pytest.skip("only root can start an engine")
    killed, following = OwnEngine(tmp_path, say), OwnEngine(tmp_path, say)
    try:
        killed.packages = running_engine.packages or Packages(FOLDER / "packages", say)
        killed.packages.fetch()
        env = killed.start()
    except Unavailable as reason:
        pytest.skip(str(reason))
    try:
        made = json.loads((tmp_path / "made.json").read_text())
        with closing(docker.DockerClient(base_url=env["DOCKER_HOST"])) as client:
            client.networks.create("net", driver="bridge")
        assert (len(bridges_in(made["network"])), bool(groups(made["cgroup"]))) == (2, True)
        killed.process.kill()
        killed.process.wait()
        wait_for(lambda: not running_with(made["runtime"]), "end of its processes")
    finally:
        following.stop()
    assert (bridges_in(made["network"]), groups(made["cgroup"])) == ([], [])
    assert not os.path.exists(made["runtime"])
    left = {path.name for path in tmp_path.iterdir()}
    assert left <= {"bin", "docker", "dockerd.log"}


def running_with(word):
    """Processes whose command has this word."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(word in part for part in process.info["cmdline"] or ())
    ]
