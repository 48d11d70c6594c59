import mmap
import os
import platform
import subprocess
import sys

import numpy as np
import psutil
import pytest

from batchmark_job.machine import memory
from batchmark_job.measuring.limits import RowLimits
from batchmark_job.measuring.rows import Row
from batchmark_job.workloads.builtin import WORKLOADS
from tests.builders.files import put
from tests.stand_ins.workers import bench_here

GIB = 2**30
WHOLE = psutil.virtual_memory().total
UNLIMITED = {
    "proc/self/cgroup": "4:memory:/\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
}
TIGHTEST_PARENT = {
    "proc/self/cgroup": "0::/job/part\n",
    "sys/fs/cgroup/job/part/memory.max": "max\n",
    "sys/fs/cgroup/job/part/memory.current": "5\n",
    "sys/fs/cgroup/job/memory.max": "2000\n",
    "sys/fs/cgroup/job/memory.current": "500\n",
}
# Docker on cgroup version 1: the path names the host's group, the mount is the own one.
VERSION_1 = {
    "proc/self/cgroup": "9:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/x\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "3000\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": "1200\n",
    "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 200\n",
}


def version_2(current, stat=""):
    """As inside a container: the mount shows its own group, of 1000 bytes, on top."""
    return {
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/memory.max": "1000\n",
        "sys/fs/cgroup/memory.current": f"{current}\n",
        "sys/fs/cgroup/memory.stat": stat,
    }


@pytest.mark.parametrize(
    ("files", "limit", "available"),
    [
        (version_2(400, "anon 100\ninactive_file 300\nfile 1\n"), 1000, 1000 - (400 - 300)),
        (version_2(1200), 1000, 0),
        (TIGHTEST_PARENT, 2000, 1500),
        (VERSION_1, 3000, 2000),
        ({}, WHOLE, None),
        (UNLIMITED, WHOLE, None),
    ],
    ids=["2", "2, all used up", "2, tightest parent", "1", "no control group", "1, no limit"],
)
def test_control_groups_limit_memory(tmp_path, files, limit, available):
    for name, text in files.items():
        put(tmp_path, name, text)
    assert memory.host_memory_bytes(tmp_path) == limit
    found = memory.available_host_bytes(tmp_path)
    assert found > 0 if available is None else found == available


def test_absurd_sizes_are_skipped_not_tried():
    for name, workload in WORKLOADS.items():
        parameters = {axis.name: axis.maximum for axis in workload.axes}
        measurement = Row(workload, parameters, "float64").measure(bench_here(RowLimits()))
        assert measurement.status == "skipped", name


def test_cuda_needs_room_on_both_sides(monkeypatch):
    workload = WORKLOADS["matmul"]
    implementation = workload.implementations[0]
    host, device = 10 * GIB, 10 * GIB
    monkeypatch.setattr(memory, "available_host_bytes", lambda: host)
    monkeypatch.setattr(memory, "available_cuda_bytes", lambda: device)

    def shortage():
        parameters = {"size": 10_000}
        return memory.shortage(workload, implementation, parameters, "float32", "cuda") or ""

    assert shortage() == ""
    device = GIB
    assert "1.12 GiB of GPU memory, but only 90% of the 1.00 GiB available" in shortage()
    host, device = GIB, 10 * GIB
    assert "of host memory, but only 90% of the 1.00 GiB available" in shortage()
    host = 1000
    assert [memory.has_room(needed, "cpu") for needed in (900, 901)] == [True, False]


def test_peak_memory_is_the_most_that_the_process_has_held():
    """In a fork, whose peak is what it holds: that of this process may be gigabytes."""
    child = os.fork()
    if child == 0:
        before = memory.peak_bytes("cpu")
        with mmap.mmap(-1, 50 * 2**20) as block:  # malloc might reuse pages that the process holds
            np.frombuffer(block, np.uint8)[:] = 1
        grown = memory.peak_bytes("cpu") - before
        os._exit(0 if grown > 45 * 2**20 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize(
    ("files", "kills"),
    [
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.events": "oom 9\noom_kill 2\n"}, 2),
        (TIGHTEST_PARENT | {"sys/fs/cgroup/job/memory.events": "oom_kill 0\n"}, 0),
        (VERSION_1, 7),
        ({}, 7),
    ],
    ids=["version 2", "version 2, by a parent", "version 1", "no control group"],
)
def test_kills_are_the_control_group_s_or_else_the_machine_s(tmp_path, files, kills):
    for name, text in (files | {"proc/vmstat": "pgfault 5\noom_kill 7\n"}).items():
        put(tmp_path, name, text)
    assert memory.kills_for_memory(tmp_path) == kills


def test_a_kernel_that_tells_nothing(tmp_path):
    assert memory.peak_bytes("cpu", tmp_path) is None
    assert memory.kills_for_memory(tmp_path) == 0


FAULTS_OF_CALLS = """
import ctypes, resource
from batchmark_job.machine import memory

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]

def call():
    output = libc.malloc(SIZE)
    libc.memset(output, 1, SIZE)
    libc.free(output)

def faults():
    call()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        call()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults())
memory.keep_freed_memory()
print(faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_what_a_call_frees_the_next_one_finds():
    """By the page faults of a process of its own."""
    size = 64 * 2**20
    script = FAULTS_OF_CALLS.replace("SIZE", str(size))
    ended = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True
    )
    anew, kept = map(int, ended.stdout.split())
    assert anew >= 10 * size / (2 * 2**20)  # at least one for each huge page
    assert kept < 10
