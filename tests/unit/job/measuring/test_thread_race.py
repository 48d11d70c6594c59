"""The race over implementations and threads on simulated machines, with the noise of a real one."""

import gzip
import sys
from dataclasses import dataclass, field, replace
from functools import cache
from statistics import median
from types import SimpleNamespace

import numpy as np
import pytest

from batchmark_job.machine import fingerprint
from batchmark_job.machine.threads import thread_counts_to_try
from batchmark_job.measuring import implementation_choice
from batchmark_job.measuring.candidate import Candidate, Entry
from batchmark_job.measuring.entry import enter
from batchmark_job.measuring.limits import RowLimits
from batchmark_job.measuring.processes.answers import FirstCall
from batchmark_job.measuring.processes.workers import StepError
from batchmark_job.measuring.rows import Row
from batchmark_job.result.document import Correctness, Implementation, parse_document
from tests.paths import ROOT
from tests.stand_ins.workers import bench_here

RECORDED = ROOT / "tests" / "data" / "recorded" / "h200-smoke-cpu-2026-11-26.json.gz"
RIGHT = Correctness(relative_error=0.0, tolerance=1e-5)
TURN_SECONDS = 0.01
START_SECONDS = 0.03  # of a worker, with its inputs and the check of its first output
# That a row of `smoke` took beside its trial, on that machine, and the calls that it made.
ROW_SECONDS, ROW_CALLS = 2.5, 10


@cache
def recorded_turns():
    """Of each recorded turn its samples, as multiples of the row's median."""
    document = parse_document(gzip.decompress(RECORDED.read_bytes()))
    turns = []
    for row in document.measurements:
        samples = np.array(row.samples_seconds) / median(row.samples_seconds)
        turns += np.split(samples, np.cumsum(row.turn_samples)[:-1])
    return turns


@dataclass(frozen=True)
class Curve:
    """Seconds of a call by threads: a part that is shared out, and the cost of waking each."""

    work: float
    serial: float
    wake: float
    spins: float = 0.0  # that threads wait for each other where they are as many as the CPUs

    def __call__(self, threads, usable):
        shared = self.work * (self.serial + (1 - self.serial) / threads) + self.wake * threads
        return shared + (self.spins if threads == usable > 1 else 0.0)


@dataclass
class Machine:
    """Workers whose calls take what the curves say, with noise; and a clock that they move."""

    usable: int
    curves: list[Curve]
    rng: np.random.Generator
    now: float = 0.0
    started: list[tuple[int, int]] = field(default_factory=list)

    def run(self, function, problem, thread_counts, *_, hear):
        assert function is enter
        records = [
            Implementation(name=f"code {index}", version="1", threads=threads)
            for index in range(len(self.curves))
            for threads in thread_counts
        ]
        candidates = [Candidate(int(one.name[5:]), one, one.name, can_wait=True) for one in records]
        work = int(1e9 * self.curves[0].work) + 1
        return Entry(candidates, 1, 1, True, False, work, None, None)

    def start(self, make, problem, index, threads, input_sets, hear):
        self.now += START_SECONDS
        self.started.append((index, threads))
        return Worker(self, self.curves[index](threads, self.usable))

    def wait_for_ended(self): ...


@dataclass
class Worker:
    machine: Machine
    seconds: float

    def get_ready(self): ...

    def end(self): ...

    def ask(self, step):
        if step == "turn":
            return self.calls()
        self.machine.now += 3 * self.seconds
        return FirstCall(3 * self.seconds, RIGHT, None, False, self.calls())

    def calls(self):
        turns, rng = recorded_turns(), self.machine.rng
        noise = turns[rng.integers(len(turns))]
        first = int(rng.integers(len(noise)))
        found = []
        while not found or sum(found) < TURN_SECONDS:
            found.append(self.seconds * float(noise[(first + len(found)) % len(noise)]))
        self.machine.now += sum(found)
        return found


def drawn_curves(rng):
    """One to three implementations of some work, of 30 µs to 3 ms on one thread."""
    work = 10 ** rng.uniform(-4.5, -2.5)
    return [
        Curve(
            work * rng.uniform(1, 3),
            serial=rng.choice([0.0, 0.02, 0.2]),
            wake=10 ** rng.uniform(-7, -5),
            spins=rng.choice([0.0, 0.0, 0.0, 0.01]),
        )
        for _ in range(rng.integers(1, 4))
    ]


def chosen_for(sizes, usable, rng, monkeypatch, *, counts=None, started=None):
    """Of each size: how much slower the choice is than the best, seconds of trial and of row."""
    monkeypatch.setattr(fingerprint, "usable_cores", lambda: max(1, usable // 2))
    counts = counts or thread_counts_to_try(usable)
    bench = bench_here(RowLimits(max_seconds=0.2))
    found = []
    for curves in sizes:
        machine = Machine(usable, curves, rng)
        machine.started = machine.started if started is None else started
        clock = SimpleNamespace(perf_counter=lambda machine=machine: machine.now)
        monkeypatch.setattr(implementation_choice, "time", clock)
        row = Row(SimpleNamespace(name="work"), {}, "float32")
        row.choose(replace(bench, thread_counts=counts, cache_bytes=None, workers=machine))
        best = min(curve(threads, usable) for curve in curves for threads in counts)
        taken = curves[row.chosen.index](row.chosen.threads, usable)
        found.append((taken / best, machine.now, machine.now + ROW_SECONDS + ROW_CALLS * taken))
    return found


def growing(curves):
    """Three sizes of a workload, each with four times the work of the one before."""
    return [
        [Curve(4**power * each.work, each.serial, each.wake, each.spins) for each in curves]
        for power in range(3)
    ]


def races(usable, draws, monkeypatch, counts=None):
    """Of rows drawn, always the same, what chosen_for() says."""
    rng = np.random.default_rng((usable, draws))
    sizes = [growing(drawn_curves(rng)) for _ in range(draws)]
    found = [chosen_for(each, usable, rng, monkeypatch, counts=counts) for each in sizes]
    return np.concatenate(found).T


@pytest.mark.parametrize("usable", [2, 16, pytest.param(64, marks=pytest.mark.monte_carlo), 192])
@pytest.mark.parametrize(
    ("draws", "share"), [(12, 0.9), pytest.param(150, 0.99, marks=pytest.mark.monte_carlo)]
)
def test_the_choice_is_right_and_takes_hardly_longer(usable, draws, share, monkeypatch):
    """Right is within a tenth of the best: turns of the recorded rows lie further apart."""
    slower, seconds, _ = races(usable, draws, monkeypatch)
    assert np.mean(slower <= 1.1) >= share
    assert np.mean(slower) <= 1.02
    before = (usable, usable // 2) if usable > 2 else (2,)
    _, seconds_before, rows_before = races(usable, draws, monkeypatch, counts=before)
    assert np.sum(seconds - seconds_before) <= 0.2 * np.sum(rows_before)


class Silence:
    """Draws nothing but the middle of a turn without noise."""

    def integers(self, most):
        return 0


@pytest.fixture
def no_noise(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "recorded_turns", lambda: [np.ones(1)])


@pytest.mark.usefixtures("no_noise")
def test_numbers_of_threads_are_tried_for_as_long_as_that_pays(monkeypatch):
    monkeypatch.setattr(fingerprint, "usable_cores", lambda: 16)
    large, small = Curve(1e-1, 0.0, 1e-7), Curve(1e-4, 0.0, 1e-5)
    assert tried_on([[large]], monkeypatch) == [16, 8]
    assert tried_on([[small]], monkeypatch) == [16, 8, 4, 2, 1]
    # What spins on all threads is not given up for it.
    spinning = Curve(1e-2, 0.0, 1e-7, spins=0.01)
    assert tried_on([[spinning]], monkeypatch) == [16, 8, 4]


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize(("gain", "threads"), [(1.02, 1), (1.05, 2)])
def test_more_threads_are_chosen_only_for_a_gain(gain, threads, monkeypatch):
    serial = 2 / gain - 1
    [(slower, *_)] = chosen_for([[Curve(1e-4, serial, 0.0)]], 2, Silence(), monkeypatch)
    assert slower == pytest.approx(1.0 if threads == 2 else gain)


@pytest.mark.usefixtures("no_noise")
def test_another_size_begins_where_the_one_before_ended(monkeypatch):
    small, larger = Curve(1e-4, 0.0, 4e-6), Curve(4e-4, 0.0, 4e-6)  # best on 4, and on 8
    assert tried_on([[small], [larger]], monkeypatch) == [16, 8, 4, 2, *(4, 8, 16)]
    assert tried_on([[larger], [small]], monkeypatch) == [16, 8, 4, *(8, 4, 2)]


@pytest.mark.usefixtures("no_noise")
def test_a_candidate_that_does_not_get_ready_on_a_gpu_is_started_once():
    class Broken(Worker):
        def get_ready(self):
            raise StepError("no such kernel")

    class Gpu(Machine):
        def start(self, make, problem, index, *arguments, hear):
            worker = super().start(make, problem, index, *arguments, hear=hear)
            return Broken(self, 0.0) if index == 1 else worker

    gpu = Gpu(1, [Curve(1e-3, 0.0, 0.0)] * 3, Silence())
    entry = gpu.run(enter, None, [1], hear=None)
    problem = SimpleNamespace(device="cuda")
    chosen, _ = implementation_choice.choose_fastest(problem, entry, 0.06, gpu, None)
    assert chosen.outcome == "chosen"
    assert [candidate.reason for candidate in entry.candidates] == [None, "no such kernel", None]
    assert len(gpu.started) == 3


def tried_on(sizes, monkeypatch):
    """The numbers of threads in the order in which workers of all sizes were started."""
    started = []
    chosen_for(sizes, 16, Silence(), monkeypatch, counts=(16, 8, 4, 2, 1), started=started)
    return [threads for _, threads in started]
