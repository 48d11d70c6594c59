"""What containers may have of the engine's machine."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from local_cloud.batch.api import submission
from local_cloud.batch.api.models import JobsBatchBackend
from local_cloud.batch.jobs.host_access import refusal
from tests.unit.local_cloud.conftest import SETTINGS, of_nodes

ALLOWED = ("/scratch", "/sharing", "/fsx", "/data", "/mnt/models", "/mnt/a.b-c_1")


def with_volume(folder):
    return {"volumes": [{"name": "fresh"}, {"name": "host", "host": {"sourcePath": folder}}]}


def with_device(path):
    return {"linuxParameters": {"devices": [{"hostPath": "/dev/nvidia0"}, {"hostPath": path}]}}


@pytest.mark.parametrize(
    "folder",
    [
        *("/", "//", "/./", "/data/..", "/etc", "/etc/", "//etc/ssh", "/var", "/var/", "/proc"),
        *("/var/run/docker.sock", "/run/docker.sock", "/data/../root", "/var/lib/docker"),
        *("/home", "/home/me", "/opt", "/srv", "/var/spool/cron", "/tmp", "/dev/shm", "/mnt"),
        *("/mnt/", "/mnt/..", "/mnt/.", "/mnt/a/b", "/scratch/link", "/scratch:/etc", "/scratch\n"),
        *("data", "postgres", "..", "/scratch2", "/etcetera"),
    ],
)
def test_no_folder_of_the_host_but_those_for_jobs_is_mounted(folder):
    assert refusal(with_volume(folder)) == (
        f"the volume 'host' at {folder} (only /scratch, /sharing, /fsx, /data and /mnt/NAME are "
        "allowed): it could give a job root access to the Docker host, so the local cloud refuses "
        "it unless started with --allow-host-access"
    )


@pytest.mark.parametrize("folder", [*ALLOWED, "/scratch/", "/mnt/models/"])
def test_folders_for_jobs_are_mounted(folder):
    assert refusal(with_volume(folder)) is None


@pytest.mark.parametrize("path", ["/:/host", "/etc:/host:rw", "/a:rw"])
def test_a_mount_point_names_no_folder_of_the_host(path):
    properties = {**with_volume("/data"), "mountPoints": [{"containerPath": path}]}
    assert refusal(properties).startswith(
        f"the mount point at {path} (it contains a colon): it could"
    )
    assert refusal({"mountPoints": [{"containerPath": "/host"}]}) is None


def test_privileged_is_refused():
    assert refusal({"privileged": True}).startswith(
        "privileged: it could give a job root access to"
    )
    assert refusal({"privileged": False, "image": "i"}) is None


@pytest.mark.parametrize(
    "path",
    [
        *(f"/dev/{name}" for name in ("sda", "sda1", "nvme0n1", "mem", "dm-0", "vda", "sg0")),
        *(f"/dev/{name}" for name in ("mapper/root", "disk/by-id/x", "nvidia0/../sdb", "fuse")),
        *("/dev", "/dev/", "/", "", None, "/dev/nvidia0:/dev/sda", "/dev/nvidia0\n"),
    ],
)
def test_no_device_but_nvidias_is_given(path):
    assert f"the device {path} (only NVIDIA's are allowed)" in refusal(with_device(path))


@pytest.mark.parametrize("name", ["nvidia0", "nvidia15", "nvidiactl", "nvidia-uvm"])
def test_nvidias_devices_are_given(name):
    assert refusal(with_device(f"/dev/{name}")) is None


CONTAINERS = replace(SETTINGS, jobs="containers")
ROOT = {"image": "i", "vcpus": 1, "memory": 4, "privileged": True}
SINGLE = {"jobDefinitionName": "d", "type": "container", "containerProperties": ROOT}


@pytest.mark.parametrize("definition", [SINGLE, of_nodes(ROOT)])
def test_a_job_that_is_root_of_the_machine_is_not_registered(batch, monkeypatch, definition):
    monkeypatch.setattr(JobsBatchBackend, "settings", CONTAINERS)
    refused = batch.refusal("RegisterJobDefinition", **definition)
    assert refused.startswith("privileged: it could give ")
    assert "--allow-host-access" in refused
    assert batch.call("DescribeJobDefinitions")["jobDefinitions"] == []


def test_a_definition_from_before_is_not_run(batch, monkeypatch):
    monkeypatch.setattr(JobsBatchBackend, "settings", CONTAINERS)
    parsed = SimpleNamespace(containers=[SimpleNamespace(properties=ROOT)])
    monkeypatch.setattr(submission, "parse", lambda *_: parsed)
    assert "--allow-host-access" in batch.refused_submission()


@pytest.mark.parametrize("settings", [SETTINGS, replace(CONTAINERS, allow_host_access=True)])
def test_it_is_registered_where_it_is_allowed_and_where_no_container_runs(
    batch, monkeypatch, settings
):
    monkeypatch.setattr(JobsBatchBackend, "settings", settings)
    batch.call("RegisterJobDefinition", **SINGLE)
