"""Compares our CPU times with plain library calls and with the published approach.

Our side is the implementation that a row's trial chooses, and it is chosen again in each round. It
and the plain calls take short turns on the same inputs with the same timer. Exits with 1 if our
time is more than 1.05 times that of the fastest plain call. harness_overhead.py tells how much
measuring itself adds.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from batchmark_job.machine import memory
from batchmark_job.machine.threads import set_threads
from batchmark_job.measuring.candidate import take_turn
from batchmark_job.measuring.limits import RowLimits
from batchmark_job.measuring.problem import Problem
from batchmark_job.measuring.rows import Bench, bench_for, choose_implementation, measuring_state
from batchmark_job.measuring.sample_statistics import median_interval
from batchmark_job.measuring.sampling import MonotonicTimer, Rotation, no_garbage_collection
from batchmark_job.suites import SUITES, Point
from batchmark_job.workloads.builtin import WORKLOADS
from benchmarks.job.plain_calls import (
    PLAIN_CALLS,
    RECONSTRUCTED,
    PlainCall,
    as_tensor,
    seconds_as_published,
)

ALLOWED_RATIO = 1.05
FEWEST_ROUNDS = 3
FEWEST_TURNS = 2  # per side and round
DEFAULT_SUITES = ("smoke", "blog", "training")  # every workload, at sizes that do not take hours
LONG_TRIAL_SECONDS = 10.0  # the choice of a longer trial is kept for all rounds
MORE_BUDGET = 5  # times the budget while a size's rounds lie on both sides of ALLOWED_RATIO
MORE_ROUNDS = 12  # times the rounds, if it takes so many to get clear of ALLOWED_RATIO
HOPELESS = 1.5  # times the fastest plain call's median: calls above it are dropped
LOG_WIDTH = 160  # columns, where the output is not a terminal


class ComparisonError(Exception):
    """One side failed or computed something else, so its time means nothing."""


class RefusedError(Exception):
    """None of our implementations can run, usually for lack of memory."""


class Round(NamedTuple):
    ours: float
    implementation: str
    plain: Mapping[str, float]


@dataclass
class Runner:
    """One side's calls, on rotating inputs, and how long they took."""

    name: str
    rotation: Rotation
    threads: int
    first: float  # seconds per call, as known before the first turn
    trial_seconds: float = 0.0  # spent on choosing it
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@dataclass
class Comparison:
    """Median seconds at one size, one entry per round."""

    point: Point
    ours: list[float] = field(default_factory=list)
    implementations: list[str] = field(default_factory=list)  # our choice in each round
    plain: dict[str, list[float]] = field(default_factory=dict)
    as_published: list[float] = field(default_factory=list)
    skipped: str | None = None

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
        return len(self.ours) >= FEWEST_ROUNDS

    @property
    def fastest_plain(self) -> str:
        """The fastest plain call of those that took part in every round."""
        throughout = (name for name, found in self.plain.items() if len(found) == len(self.ours))
        return min(throughout, key=lambda name: statistics.median(self.plain[name]))

    def is_hopeless(self, name: str) -> bool:
        if not self.decided:
            return False
        fastest = statistics.median(self.plain[self.fastest_plain])
        return statistics.median(self.plain[name]) > HOPELESS * fastest

    @property
    def ratios(self) -> list[float]:
        """Our time over that of the fastest plain call, per round."""
        return [
            ours / plain
            for ours, plain in zip(self.ours, self.plain[self.fastest_plain], strict=True)
        ]

    def is_clear(self, rounds: int) -> bool:
        """Whether further rounds would hardly change the verdict.

        That is so once all rounds, at least `rounds`, are fast enough; or once there are twice as
        many and the 95 % interval of their median lies on one side of ALLOWED_RATIO.
        """
        if len(self.ours) < rounds:
            return False
        if all(ratio <= ALLOWED_RATIO for ratio in self.ratios):
            return True
        interval = median_interval(self.ratios) if len(self.ours) >= 2 * rounds else None
        return interval is not None and not interval.low <= ALLOWED_RATIO <= interval.high

    def is_over(self, rounds: int, started: float, budget_seconds: float) -> bool:
        """Whether it is clear, or rounds or time are used up."""
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
    parser.add_argument("--quick", action="store_true", help="the smoke suite only, shorter")
    parser.add_argument(
        "--suites", nargs="+", choices=SUITES, help=f"default: {', '.join(DEFAULT_SUITES)}"
    )
    parser.add_argument("--workloads", nargs="+", choices=PLAIN_CALLS, default=list(PLAIN_CALLS))
    parser.add_argument(
        "--rounds",
        type=int,
        default=5,
        help=f"{FEWEST_ROUNDS} or more; up to {MORE_ROUNDS} times as many until they are clear",
    )
    parser.add_argument(
        "--seconds", type=float, help="of each side in a round; default 0.5, quick 0.3"
    )
    parser.add_argument("--threads", type=int, help="default: all that this process may use")
    parser.add_argument(
        "--budget-seconds",
        type=float,
        default=90.0,
        help=f"for each size; rounds stop after it, but not before the {FEWEST_ROUNDS}rd; after "
        f"{MORE_BUDGET} times it where they lie on both sides of {ALLOWED_RATIO}",
    )
    arguments = parser.parse_args()
    if arguments.rounds < FEWEST_ROUNDS:
        parser.error(f"--rounds {arguments.rounds} gives no spread; give {FEWEST_ROUNDS} or more")
    suites = arguments.suites or (["smoke"] if arguments.quick else DEFAULT_SUITES)
    seconds = arguments.seconds or (0.3 if arguments.quick else 0.5)
    bench = bench_for("cpu", RowLimits(max_seconds=seconds), threads=arguments.threads)
    console = Console(width=None if sys.stdout.isatty() else LOG_WIDTH)
    comparisons = []
    for point in points(suites, arguments.workloads):
        comparisons.append(compare(point, bench, arguments.rounds, arguments.budget_seconds))
        console.print(_line(comparisons[-1]), highlight=False)
    return report(comparisons, bench.threads, console)


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
    """Time one size, in as many rounds as it takes to tell which side is faster.

    Raises:
        ComparisonError: no implementation of ours is right, or a plain call's result is wrong.
    """
    comparison = Comparison(point)
    rivals = WORKLOADS[point.workload].implementations_for(bench.device)
    most = max(rival.working_set_bytes(point.parameters, point.dtype) for rival in rivals)
    if not memory.has_room(2 * most, bench.device):
        comparison.skipped = "does not fit into memory twice"
        return comparison
    calls = list(PLAIN_CALLS[point.workload])
    started = time.perf_counter()
    ours: Runner | None = None
    while not comparison.is_over(rounds, started, budget_seconds):
        if ours is None or ours.trial_seconds <= LONG_TRIAL_SECONDS:
            try:
                ours = choose(point, bench)
            except RefusedError as error:
                comparison.skipped = None if comparison.decided else str(error)
                break
        comparison.add(run_round(point, bench, ours, calls, check=not comparison.ours))
        calls = [call for call in calls if not comparison.is_hopeless(call.name)]
        if len(comparison.ours) <= rounds:
            published = seconds_as_published(point.workload, point.parameters)
            if published is not None:
                comparison.as_published.append(published)
    return comparison


@contextmanager
def problem_of(point: Point) -> Iterator[tuple[Problem, MonotonicTimer]]:
    """Yield a row's problem and timer, under the conditions of a measurement."""
    workload = WORKLOADS[point.workload]
    with measuring_state(workload, point.dtype), no_garbage_collection():
        yield Problem(workload, point.parameters, point.dtype, "cpu"), MonotonicTimer("cpu")
    memory.release("cpu")


def choose(point: Point, bench: Bench) -> Runner:
    """Our implementation, chosen by the trial that comes before each measurement.

    Raises:
        ComparisonError: none of them is right.
        RefusedError: none of them can run.
    """
    started = time.perf_counter()
    with problem_of(point) as (problem, _):
        chosen, candidates, _ = choose_implementation(problem, bench)
    if chosen is None or chosen.rotation is None or chosen.threads is None:
        reasons = "; ".join(dict.fromkeys(str(each.reason) for each in candidates))
        if all(each.outcome == "refused" or each.out_of_memory for each in candidates):
            raise RefusedError(reasons)
        raise ComparisonError(f"{Comparison(point).label} as we compute it: {reasons}")
    return Runner(
        chosen.implementation.name,
        chosen.rotation,
        chosen.threads,
        first=chosen.trial_seconds or chosen.cold_seconds or 0.0,
        trial_seconds=time.perf_counter() - started,
    )


def run_round(
    point: Point, bench: Bench, ours: Runner, calls: Sequence[PlainCall], *, check: bool
) -> Round:
    """Alternate our implementation and the plain calls, so that drift hits all alike."""
    ours.seconds.clear()
    with problem_of(point) as (problem, timer):
        set_threads(bench.threads)
        plain = [
            prepare(call, problem, len(ours.rotation), timer, bench.threads, check=check)
            for call in calls
        ]
        take_turns([ours, *plain], timer, bench.limits.max_seconds)
    return Round(ours.median, ours.name, {runner.name: runner.median for runner in plain})


def prepare(
    plain: PlainCall,
    problem: Problem,
    input_sets: int,
    timer: MonotonicTimer,
    threads: int,
    *,
    check: bool,
) -> Runner:
    """Prepare a plain call on each input set, and time its first call.

    Raises:
        ComparisonError: its result is not the workload's.
    """
    rotation = Rotation([plain.prepare(problem.inputs(i)) for i in range(input_sets)])
    first, output = timer.seconds(rotation.take())
    if check:
        _, wrong = problem.check(problem.inputs(0), as_tensor(output))
        if wrong:
            raise ComparisonError(f"{problem.workload.name} by {plain.name}: {wrong}")
    return Runner(plain.name, rotation, threads, first)


def take_turns(runners: Sequence[Runner], timer: MonotonicTimer, seconds: float) -> None:
    """Take turns in random order until the runners have had `seconds` each, on average."""
    switch_threads = len({runner.threads for runner in runners}) > 1
    ends = time.perf_counter() + len(runners) * seconds
    turns = 0
    while turns < FEWEST_TURNS or time.perf_counter() < ends:
        for runner in random.sample(runners, len(runners)):
            if switch_threads:
                set_threads(runner.threads)
            take_turn(runner.rotation, timer, runner.seconds, runner.first)
        turns += 1


def report(comparisons: Sequence[Comparison], threads: int, console: Console) -> int:
    """Print a table per workload and the verdict; return 1 if anything is too slow, else 0."""
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
        labels = ", ".join(slow)
        console.print(f"slower than {ALLOWED_RATIO} x plain: {labels or 'nothing was measured'}")
        return 1
    console.print(f"all {len(measured)} ratios to the fastest plain call are <= {ALLOWED_RATIO}")
    return 0


def _table(workload: str, threads: int, rows: Sequence[Comparison]) -> Table:
    names = list(rows[0].plain)
    table = Table(title=f"{workload}: median milliseconds, {threads} threads", title_justify="left")
    for heading in ("size", "ours", "implementation", *names, "ours / fastest plain"):
        table.add_column(heading, justify="left" if heading == "implementation" else "right")
    table.add_column("as published / ours", justify="right")
    for row in rows:
        table.add_row(
            _size(row.point),
            _milliseconds(row.ours),
            ", ".join(dict.fromkeys(row.implementations)),
            *(_milliseconds(row.plain[name]) for name in names),
            _ratio(row),
            _times_ours(row.as_published, row.ours),
        )
    return table


def _line(comparison: Comparison) -> str:
    return f"{comparison.label}: {comparison.skipped or _ratio(comparison)}"


def _times_ours(seconds: Sequence[float], ours: Sequence[float]) -> str:
    """Median, minimum and maximum of one call per round, as multiples of our median."""
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
