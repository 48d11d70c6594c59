"""What a job sees of its machine, and of the host below its container."""

import re
import socket

import pytest
import torch

from batchmark_job.machine import fingerprint, host, metadata, nvml
from batchmark_job.result.document import Device
from tests.builders.files import put


def test_this_machine_is_described(tmp_path):
    described = fingerprint.describe(1, Device.CPU)
    assert 1 <= fingerprint.usable_cores() <= described.cpu_threads
    assert described.cpu_cores >= 1
    assert described.memory_bytes > 2**28
    assert described.compute_threads == 1
    assert described.cpu_model == fingerprint.cpu_model()
    root = put(tmp_path, "proc/cpuinfo", "processor\t: 0\nmodel name\t: A Fine CPU\n")
    assert fingerprint.cpu_model(root) == "A Fine CPU"
    assert fingerprint.cpu_model(tmp_path / "nothing")
    assert described.torch_version.startswith("2.")
    assert described.code_version == fingerprint.code_version()


def test_the_code_version_is_that_of_every_source_file_and_of_nothing_else(tmp_path):
    def version(**files):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        for name, text in files.items():
            put(folder, name, text)
        return fingerprint.code_version(folder)

    files = {"job.py": "run()", "workloads/sort.py": "sort()"}
    first = version(**files)
    assert re.fullmatch("[0-9a-f]{12}", first)
    assert version(**dict(reversed(files.items()))) == first
    assert version(**files, **{"__pycache__/job.pyc": "compiled", "README.md": "words"}) == first
    others = [
        version(**files | {"job.py": "run( )"}),
        version(**files, **{"empty.py": ""}),
        version(**{"job.py": "run()", "workloads/sorting.py": "sort()"}),
        version(**{"job.py": "run()workloads/sort.py", "workloads/sort.py": ""}),
    ]
    assert len({first, *others}) == 1 + len(others)


def test_threads_and_cores_are_cut_by_a_quota(tmp_path, monkeypatch):
    unlimited = fingerprint.usable_threads(tmp_path)
    version_2 = put(tmp_path / "2", "sys/fs/cgroup/cpu.max", "50000 100000\n")
    assert fingerprint.usable_threads(version_2) == 1
    free = put(tmp_path / "free", "sys/fs/cgroup/cpu.max", "max 100000\n")
    assert fingerprint.usable_threads(free) == unlimited
    version_1 = put(tmp_path / "1", "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n")
    put(version_1, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert fingerprint.usable_threads(version_1) == 1
    monkeypatch.setattr(fingerprint.os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    root = four_threads(tmp_path, ["0", "1", "2", "3"])
    assert fingerprint.usable_cores(put(root, "sys/fs/cgroup/cpu.max", "150000 100000\n")) == 2


def test_root_volume_and_compute_environment_are_those_that_batch_names(monkeypatch):
    monkeypatch.setenv("BATCHMARK_ROOT_VOLUME", "gp3, 64 GiB")
    monkeypatch.setenv("AWS_BATCH_CE_NAME", "")
    described = fingerprint.describe(1, Device.CPU)
    assert described.root_volume is described.compute_environment is None
    monkeypatch.setattr(metadata, "instance_metadata", lambda category: category)  # on EC2
    monkeypatch.setenv("AWS_BATCH_CE_NAME", "cpu-spot")
    described = fingerprint.describe(1, Device.CPU)
    assert (described.root_volume, described.compute_environment) == ("gp3, 64 GiB", "cpu-spot")


def four_threads(root, siblings):
    for cpu, shared in enumerate(siblings):
        put(root, f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", f"{shared}\n")
    return root


@pytest.mark.parametrize(
    ("usable", "siblings", "cores"),
    [
        ({0, 1, 2, 3}, ["0,2", "1,3", "0,2", "1,3"], 2),
        ({0, 1, 2, 3}, ["0", "1", "2", "3"], 4),
        ({0, 2}, ["0,2", "1,3", "0,2", "1,3"], 1),
        ({0, 1}, ["0,2", "1,3", "0,2", "1,3"], 2),
        ({0, 1, 2, 3}, ["0,2", "1,3"], 4),
        ({0, 1, 2, 3}, [], 4),
    ],
)
def test_usable_cores(tmp_path, monkeypatch, usable, siblings, cores):
    monkeypatch.setattr(fingerprint.os, "sched_getaffinity", lambda _: usable, raising=False)
    assert fingerprint.usable_cores(four_threads(tmp_path, siblings)) == cores


def cache(root, cpu, index, **values):
    for name, value in values.items():
        put(root, f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}/{name}", f"{value}\n")


def test_last_level_cache_is_the_sum_over_the_usable_cpus_where_it_is_told(tmp_path, monkeypatch):
    for cpu in range(4):
        pair = "0-1" if cpu < 2 else "2-3"
        cache(tmp_path, cpu, 0, level=1, type="Data", size="32K", shared_cpu_list=cpu)
        cache(tmp_path, cpu, 1, level=1, type="Instruction", size="64K", shared_cpu_list=cpu)
        cache(tmp_path, cpu, 2, level=2, type="Unified", size="512K", shared_cpu_list=cpu)
        cache(tmp_path, cpu, 3, level=3, type="Unified", size="16384K", shared_cpu_list=pair)
    usable = {0, 1, 2, 3}
    monkeypatch.setattr(fingerprint.os, "sched_getaffinity", lambda _: usable, raising=False)
    assert fingerprint.last_level_cache_bytes(root=tmp_path) == 2 * 16 * 2**20
    usable -= {2, 3}
    assert fingerprint.last_level_cache_bytes(root=tmp_path) == 16 * 2**20
    untold = tmp_path / "untold"
    assert fingerprint.last_level_cache_bytes(root=untold) is None
    cache(untold, 0, 0, level="?", type="Unified", size="1K", shared_cpu_list=0)
    cache(untold, 0, 1, level=1, type="Instruction", size="64K", shared_cpu_list=0)
    cache(untold, 0, 2, type="Data", size="64K")
    assert fingerprint.last_level_cache_bytes(root=untold) is None


@pytest.mark.usefixtures("cuda")
def test_clock_and_cache_are_those_of_the_device_that_is_measured():
    told = nvml.visible_gpus()[0].application_clock_hz()
    on_gpu, on_cpu = (fingerprint.describe(1, device) for device in (Device.CUDA, Device.CPU))
    assert on_gpu.gpu_application_clock_hz == told
    assert on_gpu.last_level_cache_bytes == torch.cuda.get_device_properties(0).L2_cache_size
    assert on_cpu.last_level_cache_bytes == fingerprint.last_level_cache_bytes()


def test_settings_of_waiting_threads_are_recorded(monkeypatch):
    for name in fingerprint.THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert fingerprint.thread_settings() == ()
    monkeypatch.setenv("KMP_BLOCKTIME", "0")
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    assert fingerprint.thread_settings() == ("OMP_WAIT_POLICY=PASSIVE", "KMP_BLOCKTIME=0")


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
