"""Groups of scripted replicas: when they start, what counts, and who is blamed for what."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchmark_job.measuring.problem import Problem
from batchmark_job.measuring.processes.answers import FirstCall
from batchmark_job.measuring.processes.workers import StepError
from batchmark_job.result.sharing import Disturbance, ReplicaOutcome, SharingMode
from batchmark_job.sharing import group
from batchmark_job.sharing.answers import ReplicaFailure, ReplicaRun, StartedReplica
from batchmark_job.sharing.group import Task, measure
from batchmark_job.sharing.point import MpsLimits, SharingPoint
from batchmark_job.sharing.row import sharing_record
from batchmark_job.sharing.schedule import Steps, Window, seconds_per_step, split
from batchmark_job.workloads.builtin import WORKLOADS
from tests.stand_ins.looked_at_clock import LookedAtClock

TASK = Task(Problem(WORKLOADS["matmul"], {"size": 8}, "float32", "cpu"), 0, 1)


class Replica:
    """Makes steps of so many seconds, unless something is wrong with it."""

    def __init__(self, log, name, seconds, at_start=None, at_run=None, late_by=0.0):
        self.log, self.name, self.seconds = log, name, seconds
        self.at_start, self.at_run, self.late_by = at_start, at_run, late_by

    def get_ready(self):
        self.log.append(f"{self.name} ready")
        if self.at_start:
            raise self.at_start

    def ask(self, step):
        first = FirstCall(self.seconds, None, None, changes_inputs=False)
        return [StartedReplica(first, 0.5, "a-gpu")] if step == "started" else None

    def begin(self, step, **arguments):
        assert step == "run"
        self.asked = arguments
        self.log.append(f"{self.name} runs")

    def answer(self, within_seconds):
        assert within_seconds >= 0
        if self.at_run:
            raise self.at_run
        begins, end = self.asked["start"] + self.late_by, self.asked["end"]
        group.time.sleep(end - group.time.perf_counter())
        ends = begins + np.arange(1, 2 + (end - begins) // self.seconds) * self.seconds
        return [ReplicaRun(Steps(begins, ends.tolist()), 1000)] * self.holds

    def end(self):
        self.log.append(f"{self.name} ends")


class Scripted:
    """Workers that hold these replicas, in this order."""

    def __init__(self, *replicas):
        self.log, self.arguments = [], []
        named = zip("abcdefgh", replicas, strict=False)
        self.coming = [Replica(self.log, name, **each) for name, each in named]

    def wait_for_ended(self):
        self.log.append("waits")

    def start(self, make, *arguments, hear):
        self.arguments.append(arguments)
        replica = self.coming.pop(0)
        replica.holds = arguments[3]
        return replica


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    made = LookedAtClock()
    monkeypatch.setattr(group, "time", made)
    return made


def run(mode, workers, *, replicas=None, **point):
    """A group of all the replicas that the workers hold, or of so many."""
    shared = SharingPoint(SharingMode(mode), replicas or len(workers.coming), **point)
    return shared, measure(TASK, shared, 0.12, workers, lambda *_: None, None)


def steps(found):
    return [ran.steps for ran in found.ran]


def test_all_start_before_any_runs_and_share_their_windows():
    workers = Scripted({"seconds": 0.004}, {"seconds": 0.004})
    _, found = run("time_slicing", workers)
    assert workers.log == ["waits", "a ready", "b ready", "a runs", "b runs", "a ends", "b ends"]
    assert len(found.windows) == group.WINDOWS
    per_step = [seconds_per_step(steps(found), window) for window in found.windows]
    assert per_step == pytest.approx([0.002] * group.WINDOWS)
    assert len({each.steps.began for each in found.ran}) == 1
    assert found.windows[0].start - found.ran[0].steps.began == pytest.approx(0.02)


def test_one_after_the_other_each_runs_alone(monkeypatch):
    used = iter([100, 700, 700, 900])
    monkeypatch.setattr(group._Runner, "_memory_used", lambda _: next(used))
    workers = Scripted({"seconds": 0.001}, {"seconds": 0.002})
    _, found = run("exclusive", workers)
    one, other = ([f"{name} {did}" for did in ("ready", "runs", "ends")] for name in "ab")
    assert workers.log == ["waits", *one, "waits", *other]
    assert len(found.windows) == 6  # three of each
    per_step = [seconds_per_step(steps(found), window) for window in found.windows]
    assert per_step == pytest.approx([0.001] * 3 + [0.002] * 3)
    assert found.device_memory_bytes == 600, "what a replica adds"


@pytest.mark.parametrize(
    ("mode", "replicas", "step_seconds", "in_a_window"),
    [
        ("time_slicing", 1, 0.05, 1),
        ("time_slicing", 4, 0.01, 4),  # even if only one goes on at a time
        ("exclusive", 6, 0.02, 1),
    ],
)
def test_slow_steps_get_more_time(mode, replicas, step_seconds, in_a_window):
    _, found = run(mode, Scripted(*[{"seconds": step_seconds}] * replicas))
    assert len(found.windows) == (replicas if mode == "exclusive" else group.WINDOWS)
    least = group.STEPS_IN_WINDOW * in_a_window * step_seconds
    assert all(window.seconds == pytest.approx(least) for window in found.windows)


def test_a_replica_that_began_late_is_measured_again_and_one_that_always_does_as_it_is(
    monkeypatch, clock
):
    monkeypatch.setattr(group, "LEADS_SECONDS", (0.01, 0.2))
    late, in_time = {"seconds": 0.001, "late_by": 0.03}, {"seconds": 0.001}
    workers = Scripted(late, in_time, in_time)
    told = clock.perf_counter()
    _, found = run("exclusive", workers, replicas=2)
    assert [line for line in workers.log if line.endswith("ends")] == ["a ends", "b ends", "c ends"]
    assert len(found.ran) == len(found.started) == len(found.spans) == 2
    assert found.ran[0].steps.began - told > 0.2
    assert not found.was_late()
    monkeypatch.setattr(group, "LEADS_SECONDS", (0.01, 0.02))
    workers = Scripted(*[{"seconds": 0.001, "late_by": 10.0}] * 2)
    _, found = run("time_slicing", workers, replicas=1)
    assert found.was_late()
    assert {seconds_per_step(steps(found), window) for window in found.windows} == {None}


def test_one_that_does_not_start_is_named_and_all_end():
    full = StepError("out of memory", out_of_memory=True)
    workers = Scripted({"seconds": 0.01}, {"seconds": 0.01, "at_start": full})
    with pytest.raises(StepError, match="replica 2: out of memory") as raised:
        run("time_slicing", workers)
    assert raised.value.out_of_memory
    assert workers.log[-2:] == ["a ends", "b ends"]
    workers = Scripted({"seconds": 0.01})
    with pytest.raises(IndexError):  # what is not the replica's fault reaches the caller as it is
        run("time_slicing", workers, replicas=2)
    assert workers.log == ["waits", "a ends"]


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        ({"lost": True}, "crashed"),
        ({"lost": True, "hung": True}, "hung"),
        ({"lost": True, "out_of_memory": True}, "out_of_memory"),
        ({}, "failed"),
    ],
)
def test_what_became_of_a_replica_is_told_apart(fault, outcome):
    gone = {"seconds": 0.004, "at_run": StepError("it is gone", **fault)}
    workers = Scripted(gone, {"seconds": 0.0045})
    point, found = run("time_slicing", workers, disturbance=Disturbance.CRASH)
    assert found.ran[0] == ReplicaFailure(ReplicaOutcome(outcome), "it is gone")
    record = sharing_record(point, [found])
    assert [replica.outcome for replica in record.replicas] == [outcome, "ran"]
    assert record.replicas[0].group_steps == ()
    assert record.replicas[1].group_steps == (22,)


def test_a_record_holds_each_replicas_steps_gaps_and_start():
    workers = Scripted({"seconds": 0.0019}, {"seconds": 0.0045})
    point, found = run("time_slicing", workers, limits=MpsLimits(25, 100))
    record = sharing_record(point, [found, found])
    fast, slow = record.replicas
    assert (fast.group_steps, slow.group_steps) == ((53, 53), (22, 22))
    assert fast.step_seconds_p50 == pytest.approx(0.0019)
    assert slow.step_seconds_p99 == pytest.approx(0.0045)
    assert slow.longest_gap_seconds == pytest.approx(0.0045)
    assert (fast.startup_seconds, fast.device_uuid, fast.peak_memory_bytes) == (0.5, "a-gpu", 1000)
    assert (record.mode, record.form) == ("time_slicing", "processes")
    assert record.device_memory_bytes is None
    assert record.active_thread_percentage is record.memory_limit_bytes is None, "of MPS alone"


def test_a_stream_each_takes_one_process():
    workers = Scripted({"seconds": 0.01})
    run("streams", workers, replicas=3)
    ((_, _, _, count, environment, limit),) = workers.arguments
    assert (count, limit) == (3, None)
    assert environment["CUDA_MPS_PIPE_DIRECTORY"].startswith("/nonexistent/")


def test_no_group_waits_longer_than_its_time_and_its_patience(monkeypatch, clock):
    monkeypatch.setattr(group, "LEAST_PATIENCE_SECONDS", 0.1)
    asked = []

    class Hung(Replica):
        def answer(self, within_seconds):
            asked.append(within_seconds)
            clock.sleep(within_seconds)
            raise StepError("it hung", lost=True, hung=True)

    workers = Scripted({"seconds": 0.001}, {"seconds": 0.001})
    workers.coming = [Hung(workers.log, name, 0.001) for name in "ab"]
    began = clock.perf_counter()
    _, found = run("time_slicing", workers)
    assert clock.perf_counter() - began < 1
    assert [lost.outcome for lost in found.ran] == ["hung", "hung"]
    assert asked[1] < 0.01  # what the first one left


WINDOW = Window(10.0, 20.0)


def regular(seconds, began=9.0, until=21.0):
    return Steps(began, list(np.arange(began + seconds, until + seconds, seconds)))


def test_steps_count_by_their_share_of_a_window_and_a_gap_reaches_to_its_edges():
    steps = Steps(9.0, [11.0, 13.0, 21.0])
    assert steps.within(WINDOW) == pytest.approx(0.5 + 1 + 7 / 8)
    assert steps.whole_within(WINDOW) == 2
    assert steps.seconds_within(WINDOW).tolist() == [2.0, 2.0]
    steps = Steps(0.0, [1.0, 2.0])
    assert steps.within(WINDOW) == 0
    assert seconds_per_step([steps], WINDOW) is None
    assert steps.longest_gap(WINDOW) == 10.0
    for ends, longest in (([10.5, 11, 15, 16], 4), ([10.5, 13, 14], 6), ([18, 21], 8)):
        assert Steps(9.0, ends).longest_gap(WINDOW) == longest


def test_two_that_take_turns_make_as_many_steps_as_one_alone_and_else_twice_as_many():
    assert seconds_per_step([regular(0.5)], WINDOW) == pytest.approx(0.5)
    assert seconds_per_step([regular(1.0), regular(1.0, 9.5)], WINDOW) == pytest.approx(0.5)
    assert seconds_per_step([regular(0.5)] * 2, WINDOW) == pytest.approx(0.25)


@given(st.lists(st.floats(0.01, 5), min_size=1, max_size=40), st.integers(1, 9))
def test_windows_side_by_side_hold_the_steps_of_all_of_them(durations, count):
    steps = Steps(0.0, list(np.cumsum(durations)))
    whole = Window(0.0, steps.ends[-1])
    parts = [steps.within(window) for window in split(whole, count)]
    assert sum(parts) == pytest.approx(len(durations))
    assert steps.whole_within(whole) == len(durations)
