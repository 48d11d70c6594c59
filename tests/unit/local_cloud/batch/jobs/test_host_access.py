"""Which containers would be root of the engine's machine."""

import pytest

from local_cloud.batch.jobs.host_access import refusal


def with_volume(folder):
    return {"volumes": [{"name": "fresh"}, {"name": "host", "host": {"sourcePath": folder}}]}


def with_device(path):
    return {"linuxParameters": {"devices": [{"hostPath": "/dev/null"}, {"hostPath": path}]}}


@pytest.mark.parametrize(
    "folder",
    [
        *("/", "//", "/./", "/data/..", "/etc", "/etc/", "//etc/ssh", "/var", "/var/", "/proc"),
        *("/var/run/docker.sock", "/run/docker.sock", "/data/../root", "/var/lib/docker"),
    ],
)
def test_a_system_folder_of_the_host_is_refused_by_name(folder):
    assert refusal(with_volume(folder)) == (
        f"the volume 'host' of {folder} makes a job root of the engine's machine, "
        "which the local cloud refuses unless it is started with --allow-host-access"
    )


@pytest.mark.parametrize("folder", ["/scratch", "/data/etc", "/etcetera", "/var/tmp/x", "data"])
def test_other_folders_are_mounted(folder):
    assert refusal(with_volume(folder)) is None


def test_privileged_is_refused():
    assert refusal({"privileged": True}).startswith("privileged makes a job root of")
    assert refusal({"privileged": False, "image": "i"}) is None


@pytest.mark.parametrize(
    ("path", "is_refused"),
    [
        *((f"/dev/{name}", True) for name in ("sda", "sda1", "nvme0n1", "mem", "dm-0", "vda")),
        *((f"/dev/{name}", True) for name in ("mapper/root", "disk/by-id/x", "shm/../sdb")),
        *((f"/dev/{name}", False) for name in ("nvidia0", "fuse", "infiniband/uverbs0", "zero")),
    ],
)
def test_disks_and_memory_are_refused(path, is_refused):
    assert (refusal(with_device(path)) is not None) == is_refused
