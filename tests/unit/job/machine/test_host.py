"""What a job sees of the host below its container."""

import socket

import pytest

from batchmark_job.machine import host
from tests.builders.files import put

HEADER = "Num       RefCount Protocol Flags    Type St Inode Path\n"
ENGINE, DCGM = "/var/run/docker.sock", "/run/nvidia-dcgm/nv-hostengine"
ALL = "DCGM, MPS, persistence"
UNNAMED = "00000000dbd24405: 00000003 00000000 00000000 0001 03 5579882\n"


def sockets(*paths):
    """As Linux lists those that listen, between others."""
    line = "0000000048d47aa3: 00000002 00000000 00010000 0001 01 {} {}\n"
    listed = [line.format(number, path) for number, path in enumerate(paths)]
    return HEADER + UNNAMED + "".join(listed) + UNNAMED


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        (["/run/docker.sock"], "none"),
        (["/run/containerd/containerd.sock", "/run/control", "/tmp/dcgm.sock"], "none"),
        (["/run/docker.sock", DCGM], "DCGM"),
        (["/run/docker.sock", "/tmp/nvidia-mps/control"], "MPS"),
        (["/run/mps-ecs/control", ENGINE, DCGM, "/run/nvidia-persistenced/socket"], ALL),
        ([DCGM], None),  # no engine: not the host's network
        ([], None),
    ],
)
def test_daemons_are_known_by_their_sockets(tmp_path, paths, found):
    assert host.gpu_daemons(put(tmp_path, "proc/net/unix", sockets(*paths))) == found


def test_linux_lists_sockets_as_they_are_read_here(tmp_path):
    assert host.gpu_daemons(tmp_path) is None, "a container may not see them"
    folder = tmp_path / "nvidia-mps"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as control, socket.socket(socket.AF_UNIX) as engine:
        control.bind(str(folder / "control"))
        engine.bind(str(tmp_path / "docker.sock"))
        assert "MPS" in str(host.gpu_daemons())
