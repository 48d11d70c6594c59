"""Compares our CPU times with those of plain library calls and of the published approach.

Our side is the implementation that a row's trial chooses; the trial is repeated in each round
unless it takes long. The plain calls run with every thread count that a trial can choose. Each side
has its own process, and all take short turns on the same inputs with the same timer. Exits with 1
if our time at any size is more than 1.05 times that of the fastest plain call, or if nothing was
measured. harness_overhead.py measures the overhead of measuring.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from batchmark_job.machine import memory
from batchmark_job.measuring import steps
from batchmark_job.measuring.candidate import Candidate
from batchmark_job.measuring.implementation_choice import start_prepared
from batchmark_job.measuring.limits import RowLimits
from batchmark_job.measuring.measured_row import Bench
from batchmark_job.measuring.processes.answers import FirstCall
from batchmark_job.measuring.processes.workers import ForkedWorkers, StepError, Worker, ignore
from batchmark_job.measuring.rows import Row
from batchmark_job.measuring.samples.sample_statistics import median_interval
from batchmark_job.progress import name_and_threads
from batchmark_job.result.document import MeasurementStatus
from batchmark_job.suites import SUITES, Point
from batchmark_job.workloads.builtin import WORKLOADS
from benchmarks.job import plain_calls
from benchmarks.job.plain_calls import (
    PLAIN_CALLS,
    RECONSTRUCTED,
    prepare_plain,
    seconds_as_published,
)

ALLOWED_RATIO = 1.05  # equal processes differ by up to 4 % (docs/decisions/0018)
FEWEST_ROUNDS = 3  # with fewer, one disturbed round could decide the median
FEWEST_TURNS = 2  # per side and round
FIRST_LOOK_SECONDS = 0.1  # per side, a fifth of the usual: rough, as a first look never fails
DEFAULT_SUITES = ("smoke", "blog", "training")  # every workload, at sizes that don't take hours
LONG_TRIAL_SECONDS = 10.0  # the choice of a longer trial is kept for all rounds
MORE_BUDGET = 5  # times the budget while a size's rounds lie on both sides of ALLOWED_RATIO
MORE_ROUNDS = 12  # times the rounds, if the verdict needs that many
HOPELESS = 1.5  # times the fastest plain call's median: slower calls are dropped
LOG_WIDTH = 160  # columns if output is not a terminal


class ComparisonError(Exception):
    """One side failed or computed a wrong result, so its time is meaningless."""


class RefusedError(Exception):
    """None of our implementations can run, usually because there is too little memory."""


class Round(NamedTuple):
    ours: float
    implementation: str
    plain: Mapping[str, float]


class Rival(NamedTuple):
    """A plain library call on a given number of threads."""

    call: str
    threads: int

    @property
    def name(self) -> str:
        return f"{self.call} on {self.threads}"


class Choice(NamedTuple):
    """The implementation that a trial chose, and how long the trial took."""

    row: Row
    candidate: Candidate
    trial_seconds: float


@dataclass
class Runner:
    """One side's worker process, and how many seconds each of its calls took."""

    name: str
    worker: Worker
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@dataclass
class Comparison:
    """The results at one size: each side's median seconds in each round."""

    point: Point
    ours: list[float] = field(default_factory=list)
    implementations: list[str] = field(default_factory=list)  # our choice in each round
    plain: dict[str, list[float]] = field(default_factory=dict)
    as_published: list[float] = field(default_factory=list)
    skipped: str | None = None
    fewest_rounds: int = FEWEST_ROUNDS

    def add(self, result: Round) -> None:
        self.ours.append(result.ours)
        self.implementations.append(result.implementation)
        for name, seconds in result.plain.items():
            self.plain.setdefault(name, []).append(seconds)

    @property
    def label(self) -> str:
        return f"{self.point.workload} {_size(self.point)}"

    @property
    def decided(self) -> bool:
        return len(self.ours) >= self.fewest_rounds

    @property
    def fastest_plain(self) -> str:
        """The plain call with the lowest median time among those that ran in every round."""
        throughout = (name for name, found in self.plain.items() if len(found) == len(self.ours))
        return min(throughout, key=lambda name: statistics.median(self.plain[name]))

    def is_hopeless(self, name: str) -> bool:
        if not self.decided:
            return False
        fastest = statistics.median(self.plain[self.fastest_plain])
        return statistics.median(self.plain[name]) > HOPELESS * fastest

    @property
    def ratios(self) -> list[float]:
        """Our time divided by the fastest plain call's, per round."""
        return [
            ours / plain
            for ours, plain in zip(self.ours, self.plain[self.fastest_plain], strict=True)
        ]

    def is_clear(self, rounds: int) -> bool:
        """Return whether further rounds are unlikely to change the verdict.

        This is the case after `rounds` rounds if no ratio is above ALLOWED_RATIO, and after twice
        as many if the 95 % interval of their median is entirely above or below it.
        """
        if len(self.ours) < rounds:
            return False
        if all(ratio <= ALLOWED_RATIO for ratio in self.ratios):
            return True
        interval = median_interval(self.ratios) if len(self.ours) >= 2 * rounds else None
        return interval is not None and not interval.low <= ALLOWED_RATIO <= interval.high

    def is_over(self, rounds: int, started: float, budget_seconds: float) -> bool:
        """Return whether to stop: the verdict is clear, or no rounds or time are left."""
        if len(self.ours) >= MORE_ROUNDS * rounds or self.is_clear(rounds):
            return True
        if not self.decided:
            return False
        is_mixed = min(self.ratios) <= ALLOWED_RATIO < max(self.ratios)
        budget = budget_seconds * (MORE_BUDGET if is_mixed else 1)
        return time.perf_counter() - started >= budget

    @property
    def passed(self) -> bool:
        return self.decided and statistics.median(self.ratios) <= ALLOWED_RATIO


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="run only the smoke suite, for a short time"
    )
    parser.add_argument(
        "--suites",
        nargs="+",
        choices=SUITES,
        help=f"suites to run (default: {', '.join(DEFAULT_SUITES)})",
    )
    parser.add_argument(
        "--first-look",
        action="store_true",
        help="run one short round per size; list slower sizes but never fail",
    )
    parser.add_argument("--workloads", nargs="+", choices=PLAIN_CALLS, default=list(PLAIN_CALLS))
    parser.add_argument(
        "--rounds",
        type=int,
        default=5,
        help=f"rounds per size (at least {FEWEST_ROUNDS}); up to {MORE_ROUNDS} times as many are "
        "run if the verdict is unclear",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        help="seconds per side and round (default: 0.5, or 0.3 with --quick)",
    )
    parser.add_argument(
        "--threads", type=int, help="number of CPU threads (default: all available)"
    )
    parser.add_argument(
        "--budget-seconds",
        type=float,
        default=90.0,
        help="start no more rounds of a size after this many seconds, except for the first "
        f"{FEWEST_ROUNDS}; {MORE_BUDGET} times as long while some ratios are above "
        f"{ALLOWED_RATIO} and others are not",
    )
    arguments = parser.parse_args()
    if arguments.rounds < FEWEST_ROUNDS:
        parser.error(f"--rounds {arguments.rounds} is too few; the minimum is {FEWEST_ROUNDS}")
    suites = arguments.suites or (["smoke"] if arguments.quick else DEFAULT_SUITES)
    seconds = arguments.seconds or (0.3 if arguments.quick else 0.5)
    rounds: tuple[int, float] = arguments.rounds, arguments.budget_seconds
    if arguments.first_look:
        seconds, rounds = FIRST_LOOK_SECONDS, (1, 0.0)
    # Otherwise each plain call's process would import it, which takes longer than the call's turns.
    pool = ForkedWorkers(modules=(plain_calls.__name__,))
    with closing(pool) as workers:  # otherwise the exit waits for workers that an error left behind
        machine = workers.run(steps.look_around, "cpu", arguments.threads or 0, False)
        bench = Bench.of(machine, RowLimits(max_seconds=seconds), workers)
        console = Console(width=None if sys.stdout.isatty() else LOG_WIDTH)
        comparisons = []
        for point in points(suites, arguments.workloads):
            comparisons.append(compare(point, bench, *rounds))
            console.print(_line(comparisons[-1]), highlight=False)
    passed = report(comparisons, machine.threads, console)
    return 0 if arguments.first_look else passed


def points(suites: Sequence[str], workloads: Sequence[str]) -> Iterator[Point]:
    """Yield each float32 row of the suites once, grouped by workload."""
    found = [point for suite in suites for point in SUITES[suite].points(["float32"])]
    for workload in workloads:
        seen: list[Mapping[str, int]] = []
        for point in found:
            if point.workload == workload and point.parameters not in seen:
                seen.append(point.parameters)
                yield point


def compare(point: Point, bench: Bench, rounds: int, budget_seconds: float) -> Comparison:
    """Time one size in rounds, until the verdict is clear or the budget is spent.

    Raises:
        ComparisonError: no implementation of ours is correct, or a call fails or is incorrect.
    """
    comparison = Comparison(point, fewest_rounds=min(rounds, FEWEST_ROUNDS))
    rivals = WORKLOADS[point.workload].implementations_for(bench.device)
    most = max(rival.working_set_bytes(point.parameters, point.dtype) for rival in rivals)
    if not memory.has_room(2 * most, bench.device):
        comparison.skipped = "there is not enough memory to hold the data twice"
        return comparison
    calls = [
        Rival(call.name, threads)
        for call in PLAIN_CALLS[point.workload]
        for threads in bench.thread_counts
    ]
    started = time.perf_counter()
    ours: Choice | None = None
    while not comparison.is_over(rounds, started, budget_seconds):
        if ours is None or ours.trial_seconds <= LONG_TRIAL_SECONDS:
            if ours is not None:
                ours.row.close()
            try:
                ours = choose(point, bench)
            except RefusedError as error:
                comparison.skipped = None if comparison.decided else str(error)
                break
        comparison.add(run_round(point, bench, ours, calls, check=not comparison.ours))
        calls = [call for call in calls if not comparison.is_hopeless(call.name)]
        if rounds >= FEWEST_ROUNDS and len(comparison.ours) <= rounds:
            published = seconds_as_published(point.workload, point.parameters)
            if published is not None:
                comparison.as_published.append(published)
    if ours is not None:
        ours.row.close()
    return comparison


def choose(point: Point, bench: Bench) -> Choice:
    """Choose our implementation by running the trial that precedes every measurement.

    Raises:
        ComparisonError: none of our implementations is correct.
        RefusedError: none of them can run.
    """
    started = time.perf_counter()
    row = Row(WORKLOADS[point.workload], point.parameters, point.dtype)
    try:
        row.choose(bench)
    except StepError as error:
        raise RefusedError(str(error)) from error
    if row.chosen is None:
        reason = row.measurement.reason if row.measurement else None
        row.close()
        if row.measurement and row.measurement.status is MeasurementStatus.SKIPPED:
            raise RefusedError(reason)
        raise ComparisonError(f"{Comparison(point).label}: our side failed: {reason}")
    return Choice(row, row.chosen, time.perf_counter() - started)


def run_round(
    point: Point, bench: Bench, ours: Choice, calls: Sequence[Rival], *, check: bool
) -> Round:
    """Let our implementation and the plain calls take turns, and return the median of each.

    Because they take turns, drift affects all of them alike.

    Raises:
        ComparisonError: one of them fails, or its result is wrong.
    """
    problem = ours.row.problem(bench)
    sets = ours.row.input_sets
    us = Runner(
        name_and_threads(ours.candidate.implementation),
        start_prepared(problem, ours.candidate, sets, bench.workers, ignore),
    )
    plain = [
        Runner(call.name, bench.workers.start(prepare_plain, problem, *call, sets))
        for call in calls
    ]
    runners = [us, *plain]
    try:
        for runner in runners:
            begin(runner, point, check=check)
        take_turns(runners, bench.limits.max_seconds)
    except StepError as error:
        raise ComparisonError(f"{Comparison(point).label}: {error}") from error
    finally:
        for runner in runners:
            runner.worker.end()
    return Round(us.median, us.name, {runner.name: runner.median for runner in plain})


def begin(runner: Runner, point: Point, *, check: bool) -> None:
    """Make a side's first call.

    Raises:
        ComparisonError: the result is wrong.
        StepError: the call failed.
    """
    runner.worker.get_ready()
    first: FirstCall = runner.worker.ask("first_call")
    if check and first.wrong:
        raise ComparisonError(f"{point.workload} by {runner.name}: {first.wrong}")


def take_turns(runners: Sequence[Runner], seconds: float) -> None:
    """Let the runners take turns in random order, for `seconds` each on average."""
    ends = time.perf_counter() + len(runners) * seconds
    turns = 0
    while turns < FEWEST_TURNS or time.perf_counter() < ends:
        for runner in random.sample(runners, len(runners)):
            runner.seconds += runner.worker.ask("turn")
        turns += 1


def report(comparisons: Sequence[Comparison], threads: int, console: Console) -> int:
    """Print a table per workload and the verdict, and return the exit code.

    It is 1 if anything is too slow or nothing was measured, else 0.
    """
    measured = [comparison for comparison in comparisons if not comparison.skipped]
    for workload, rows in groupby(measured, key=lambda row: row.point.workload):
        console.print(_table(workload, threads, list(rows)))
        if workload in RECONSTRUCTED:
            console.print(f"as published: {RECONSTRUCTED[workload]}")
    for comparison in comparisons:
        if comparison.skipped:
            console.print(f"skipped: {_line(comparison)}")
    slow = [row.label for row in measured if not row.passed]
    if slow or not measured:
        verdict = f"slower than the fastest plain call by over {ALLOWED_RATIO - 1:.0%}: "
        console.print(verdict + ", ".join(slow) if slow else "nothing was measured")
        return 1
    console.print(f"all {len(measured)} ratios to the fastest plain call are <= {ALLOWED_RATIO}")
    return 0


def _table(workload: str, threads: int, rows: Sequence[Comparison]) -> Table:
    table = Table(
        title=f"{workload}: median milliseconds, up to {threads} threads", title_justify="left"
    )
    names = ("implementation", "fastest plain call")
    for heading in ("size", "ours", names[0], "plain", names[1], "ours / fastest plain"):
        table.add_column(heading, justify="left" if heading in names else "right")
    table.add_column("as published / ours", justify="right")
    for row in rows:
        table.add_row(
            _size(row.point),
            _milliseconds(row.ours),
            ", ".join(dict.fromkeys(row.implementations)),
            _milliseconds(row.plain[row.fastest_plain]),
            row.fastest_plain,
            _ratio(row),
            _times_ours(row.as_published, row.ours),
        )
    return table


def _line(comparison: Comparison) -> str:
    return f"{comparison.label}: {comparison.skipped or _ratio(comparison)}"


def _times_ours(seconds: Sequence[float], ours: Sequence[float]) -> str:
    """Format the median, minimum and maximum of these times as multiples of our median."""
    if not seconds:
        return ""
    our = statistics.median(ours)
    middle, least, most = (of(seconds) / our for of in (statistics.median, min, max))
    return f"{middle:.1f} ({least:.1f} to {most:.1f})"


def _size(point: Point) -> str:
    return " ".join(f"{name} {value}" for name, value in point.parameters.items())


def _milliseconds(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds) * 1e3:.3g}"


def _ratio(comparison: Comparison) -> str:
    ratios = comparison.ratios
    return (
        f"{statistics.median(ratios):.3f} ({min(ratios):.2f} to {max(ratios):.2f}, "
        f"{len(ratios)} rounds)"
    )


if __name__ == "__main__":
    sys.exit(main())
