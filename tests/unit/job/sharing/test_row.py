"""Rows of the suite with real processes: each fault is seen and named, and leaves the others."""

from dataclasses import replace

import psutil
import pytest

from batchmark_job.machine.inventory import take_inventory
from batchmark_job.measuring.limits import RowLimits
from batchmark_job.measuring.measured_row import Bench
from batchmark_job.measuring.processes import workers
from batchmark_job.measuring.processes.answers import FirstCall
from batchmark_job.measuring.processes.workers import ForkedWorkers
from batchmark_job.result.sharing import Disturbance, SharingMode
from batchmark_job.sharing import group, row
from batchmark_job.sharing.answers import StartedReplica
from batchmark_job.sharing.point import SharingPoint
from tests.builders.sharing_rows import sharing_row
from tests.waiting import PATIENCE_SECONDS

# Five windows of 90 ms, in one group: in 30 ms a busy machine may let no replica end a step.
LIMITS = RowLimits(max_seconds=0.45, processes=1, turns=1)
TWO_GROUPS = RowLimits(max_seconds=0.9, processes=2, turns=1)
# Two of a few milliseconds each: a step of microseconds would leave 40,000 moments to send.
SIZE = 256


@pytest.fixture(scope="module")
def bench():
    workers = ForkedWorkers(PATIENCE_SECONDS)
    machine = take_inventory("cpu", 1, allow_cpu_fallback=False)
    yield Bench.of(machine, LIMITS, workers)
    workers.close()


def make_row(mode="time_slicing", replicas=2, **point):
    shared = SharingPoint(SharingMode(mode), replicas, **point)
    return sharing_row(SIZE, shared)


def outcomes(measurement):
    return [replica.outcome.value for replica in measurement.sharing.replicas]


def test_a_row_has_a_sample_of_each_window_and_a_replica_of_each_process(bench):
    measured = make_row().measure(replace(bench, limits=TWO_GROUPS))
    assert measured.status in {"measured", "unsettled"}, measured.reason
    assert measured.parameters == {"size": SIZE, "mode": "time_slicing", "replicas": 2}
    assert measured.process_samples == measured.turn_samples == (5, 5)
    assert outcomes(measured) == ["ran", "ran"]
    for replica in measured.sharing.replicas:
        assert replica.device_uuid is None
        assert replica.step_seconds_p50 <= replica.step_seconds_p95 <= replica.step_seconds_p99
        assert replica.startup_seconds > 0
        assert len(replica.group_steps) == 2
    assert measured.implementation.threads == 1
    assert measured.correctness.passed
    assert measured.flops == 2 * SIZE**3
    assert not bench.workers.live


def test_rows_of_a_task_choose_its_implementation_once(bench):
    first = make_row("exclusive", 1)
    second = make_row("exclusive", 2)
    second.task = first.task
    chosen = [(each.measure(bench).trials, each.chosen) for each in (first, second)]
    assert chosen[0] == chosen[1]
    assert first.chosen is second.chosen


@pytest.mark.parametrize(
    ("disturbance", "outcome", "said"),
    [
        ("crash", "crashed", "killed by SIGSEGV"),
        ("hang", "hung", "no response"),
        ("out_of_memory", "out_of_memory", "out of memory"),
        ("slow", "ran", None),
    ],
)
def test_a_disturbance_is_named_and_leaves_the_others(
    bench, disturbance, outcome, said, monkeypatch
):
    patience = 3.0 if disturbance == "hang" else PATIENCE_SECONDS
    monkeypatch.setattr(group, "LEAST_PATIENCE_SECONDS", patience)
    bench = replace(bench, limits=TWO_GROUPS if disturbance == "crash" else LIMITS)
    measured = make_row(disturbance=Disturbance(disturbance)).measure(bench)
    assert outcomes(measured) == [outcome, "ran"]
    assert measured.parameters["disturbance"] == disturbance
    assert measured.status in {"measured", "unsettled"}, measured.reason
    disturbed, other = measured.sharing.replicas
    assert said in disturbed.reason if said else disturbed.reason is None
    assert measured.process_samples == (5,) * bench.limits.processes  # each has the other's steps
    if disturbance == "slow":
        assert disturbed.step_seconds_p50 > 3 * other.step_seconds_p50
    bench.workers.wait_for_ended()
    assert not bench.workers.live
    assert not [p for p in psutil.Process().children(recursive=True) if p.status() == "zombie"]


def test_a_replica_that_ends_unasked_fails_the_row(bench, monkeypatch):
    real = group._Runner._begin

    def kill_second(self, worker, *arguments, **named):
        real(self, worker, *arguments, **named)
        if not named["disturbs"]:
            worker.kill()

    monkeypatch.setattr(group._Runner, "_begin", kill_second)
    monkeypatch.setattr(workers, "kills_for_memory", lambda: 0)  # of tests beside this one
    measured = make_row().measure(bench)
    assert measured.status == "failed"
    assert "replica 2 of 2: its process was killed by SIGKILL" in measured.reason
    assert outcomes(measured) == ["ran", "crashed"]


@pytest.mark.parametrize(
    ("mode", "reason"), [("mps", "mps needs an NVIDIA GPU"), ("streams", "streams need CUDA")]
)
def test_what_a_cpu_has_not_is_skipped(bench, mode, reason):
    measured = make_row(mode).measure(bench)
    assert measured.status == "skipped"
    assert measured.reason.startswith(reason)


def scripted_group(*uuids, wrong=None):
    first = FirstCall(0.01, None, wrong, changes_inputs=False)
    return group.Group(started=[StartedReplica(first, 0.1, uuid) for uuid in uuids])


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (scripted_group("one", "other"), "the replicas ran on different GPUs: one, other"),
        (scripted_group("one", "one", wrong="it is off"), "wrong result: it is off"),
    ],
)
def test_replicas_share_one_gpu_and_compute_the_same(bench, monkeypatch, found, reason):
    monkeypatch.setattr(row, "measure", lambda *_: found)
    measured = make_row().measure(bench)
    assert (measured.status, measured.reason) == ("failed", reason)


def test_an_interruption_keeps_the_groups_that_ended(bench):
    made = make_row()
    made.take_turn(replace(bench, limits=TWO_GROUPS))
    measured = made.interrupt("SIGTERM", "interrupted")
    assert measured.status == "interrupted"
    assert measured.reason == "SIGTERM; samples taken: 5"
    assert len(measured.sharing.replicas) == 2
    made.close()
