"""Sharing on a simulated GPU, in the test's own process; no figure here is a GPU's."""

import gc
import os
import threading

import pytest
import torch

from batchmark_job.machine import mps
from batchmark_job.measuring import prepared
from batchmark_job.measuring.limits import RowLimits
from batchmark_job.result.sharing import Disturbance, SharingMode
from batchmark_job.sharing import group, replicas
from batchmark_job.sharing.disturbances import disturb
from batchmark_job.sharing.point import MpsLimits, SharingPoint
from batchmark_job.workloads.support import torch_calls
from tests.builders.sharing_rows import sharing_row
from tests.stand_ins import cuda
from tests.stand_ins.looked_at_clock import LookedAtClock
from tests.stand_ins.workers import bench_here

pytestmark = pytest.mark.skipif(cuda.REAL_DEVICE, reason="simulates a GPU where there is none")
LIMITS = RowLimits(samples=10, max_seconds=0.1)
SMALL = {"cache_bytes": 2**16}  # which few inputs fill


@pytest.fixture(autouse=True)
def own_environment(monkeypatch):
    """What replicas set there goes with the test."""
    for name in (mps.PIPES, mps.THREAD_PERCENTAGE, mps.MEMORY_LIMIT):
        monkeypatch.setenv(name, "")


@pytest.fixture(autouse=True)
def own_clock(monkeypatch, short_turns):
    """On a busy machine, too, all replicas begin in time and step in each window."""
    clock = LookedAtClock()
    for module in (group, replicas, prepared):
        monkeypatch.setattr(module, "time", clock)


@pytest.fixture
def a10g():
    with cuda.installed("A10G", **SMALL) as gpu:
        yield gpu


def asked(mode, replicas=1, **point):
    shared = SharingPoint(SharingMode(mode), replicas, **point)
    return sharing_row(64, shared).measure(bench_here(LIMITS, device="cuda"))


def measured(mode, replicas=1, **point):
    row = asked(mode, replicas, **point)
    assert row.status == "measured", row.reason
    return row


def test_streams_are_threads_of_one_process_each_with_its_own(a10g):
    row = measured("streams", 3)
    assert a10g.streams >= 3
    assert [replica.outcome for replica in row.sharing.replicas] == ["ran"] * 3
    assert all(sum(replica.group_steps) for replica in row.sharing.replicas)
    assert {replica.device_uuid for replica in row.sharing.replicas} == {"aa"}
    assert row.sharing.replicas[0].peak_memory_bytes is None  # of all of them together


def test_a_card_says_whether_it_is_split_and_what_is_used():
    with cuda.installed("A100", **SMALL) as gpu:
        gpu.card.mig_modes = (1, 1)
        assert measured("time_slicing").sharing.mig_enabled is True
        gpu.card.mig_modes = (0, 1)
        row = measured("time_slicing")
    assert row.sharing.mig_enabled is False
    assert row.sharing.device_memory_bytes == 0  # the stand-in's is constant
    with cuda.installed("T4", **SMALL):
        assert measured("exclusive").sharing.mig_enabled is None


def test_replicas_know_the_jobs_own_daemon_in_mps_mode_alone(control, a10g, monkeypatch):
    row = measured("mps", limits=MpsLimits(thread_percentage=25))
    assert "batchmark-mps-" in os.environ[mps.PIPES]
    assert os.environ[mps.THREAD_PERCENTAGE] == "25"
    assert row.sharing.active_thread_percentage == 25
    assert row.parameters["mps_threads"] == 25
    monkeypatch.setenv(mps.PIPES, "/run/mps-ecs")
    measured("time_slicing")
    assert os.environ[mps.PIPES] == mps.WITHOUT[mps.PIPES]


def test_in_a_container_of_its_own_a_replica_uses_the_hosts_daemon(
    monkeypatch, tmp_path, control, a10g
):
    monkeypatch.setenv(mps.PIPES, str(tmp_path))
    monkeypatch.setattr(mps, "READY_SECONDS", 0.2)
    assert asked("mps", form="jobs").reason == (
        f"CUDA_MPS_PIPE_DIRECTORY is '{tmp_path}', but no MPS daemon uses that folder; mount the "
        "host daemon's folder there"
    )
    monkeypatch.setattr(mps, "READY_SECONDS", 60)
    with mps.daemon(None) as pipes:
        monkeypatch.setenv(mps.PIPES, pipes)
        measured("mps", form="jobs")
        assert os.environ[mps.PIPES] == pipes
    monkeypatch.setenv("PATH", "/nonexistent")  # that it can't be asked is no obstacle
    monkeypatch.setenv(mps.PIPES, str(tmp_path))
    (tmp_path / "control").touch()
    assert measured("mps", form="jobs").reason.endswith("does not report which clients it serves")


def test_one_streams_end_leaves_arithmetic_and_collector_to_the_others(monkeypatch, a10g):
    seen = []
    steps = prepared.Prepared.steps_until

    def look(self, moment, **calls):
        ended = steps(self, moment, **calls)
        seen.append((torch.backends.cuda.matmul.allow_tf32, gc.isenabled()))
        return ended

    monkeypatch.setattr(prepared.Prepared, "steps_until", look)
    with torch_calls.precision("tf32"):
        measured("streams", 3)
        assert torch.backends.cuda.matmul.allow_tf32
    assert gc.isenabled()
    assert set(seen) == {(False, False)}


def test_a_daemon_that_serves_nobody_is_found(control, a10g):
    control("idle")
    row = asked("mps")
    assert row.status == "skipped"
    assert row.reason.endswith("serves no clients: the replicas would use the GPU without it")


@pytest.mark.parametrize(
    ("disturbance", "outcome"), [("out_of_memory", "out_of_memory"), ("hang", "hung")]
)
def test_what_becomes_of_one_stream_takes_nothing_from_the_others(
    monkeypatch, disturbance, outcome
):
    ended = threading.Event()  # here a thread that hung for good would go on beside other tests

    def disturb_until_the_end(kind, device):
        if kind is Disturbance.HANG:
            ended.wait()
        disturb(Disturbance.OUT_OF_MEMORY, device)

    monkeypatch.setattr(replicas, "disturb", disturb_until_the_end)
    monkeypatch.setattr(replicas, "LAST_STEP_SECONDS", 0.1 if outcome == "hung" else 60)
    with cuda.installed("T4", memory_bytes=2**28, **SMALL):
        row = measured("streams", 3, disturbance=Disturbance(disturbance))
        ended.set()
    assert [replica.outcome for replica in row.sharing.replicas] == [outcome, "ran", "ran"]
    assert all(sum(replica.group_steps) for replica in row.sharing.replicas[1:])


def test_a_limit_of_threads_shows_in_what_cuda_offers(control):
    with cuda.installed("A10G", multiprocessors=20, **SMALL):
        row = measured("mps", limits=MpsLimits(thread_percentage=25))
    assert row.sharing.replicas[0].multiprocessors == 20
    said = "25 % of the threads has no visible effect: a client still sees all 20 SMs"
    assert f"the MPS limit of {said}" in row.reason  # the simulated GPU has no MPS


def test_a_limit_of_memory_that_does_not_bind_is_found(control, a10g):
    row = asked("mps", limits=MpsLimits(memory_mib=64))
    assert row.status == "failed"
    assert "a client limited to 67108864 bytes was able to allocate 1.1 times as much" in row.reason
    with cuda.installed("A10G", memory_bytes=66 * 2**20, **SMALL):  # as if it did
        measured("mps", limits=MpsLimits(memory_mib=64))
