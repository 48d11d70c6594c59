"""Our CPU measurements beside plain library calls and the original code's approach, in one run.

Ours is the implementation that a row's trial chooses, anew in every round; it and the plain calls
take short turns on the same inputs with the same timer. Exits with 1 where our time is more than
1.05 times that of the fastest plain call. What measuring itself adds: harness_overhead.py.
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
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from batchmark_job import memory, trial
from batchmark_job.measure import Bench, as_measured, bench_for, choose_rival
from batchmark_job.sample_statistics import median_interval
from batchmark_job.sampling import MonotonicTimer, Rotation, no_garbage_collection
from batchmark_job.suites import SUITES, Limits, Point
from batchmark_job.threads import give_threads
from batchmark_job.trial import Problem
from batchmark_job.workloads import WORKLOADS
from benchmarks.plain_calls import (
    PLAIN_CALLS,
    RECONSTRUCTED,
    PlainCall,
    as_tensor,
    seconds_as_published,
)

ALLOWED_RATIO = 1.05
FEWEST_ROUNDS = 3
FEWEST_TURNS = 2  # of each side in a round
DEFAULT_SUITES = ("smoke", "blog", "training")  # every workload, and what takes no hours
LONG_TRIAL_SECONDS = 10.0  # one that took longer holds for all rounds of its size
MORE_BUDGET = 5  # times as much for a size whose rounds lie on both sides of ALLOWED_RATIO
MORE_ROUNDS = 12  # times as many, until it is clear on which side of ALLOWED_RATIO they lie
HOPELESS = 1.5  # times the fastest plain call's median: such a call stays out of further rounds
LOG_WIDTH = 160  # of the tables where there is no terminal that has a width


class ComparisonError(Exception):
    """One side failed or computes something else, so that its time means nothing."""


class RefusedError(Exception):
    """None of our implementations can try, mostly for want of memory."""


class Round(NamedTuple):
    """Medians in seconds of one round, and our implementation as the trial chose it."""

    ours: float
    implementation: str
    plain: Mapping[str, float]


@dataclass
class Runner:
    """Calls on different inputs, and what they took."""

    name: str
    rotation: Rotation
    threads: int
    first: float  # seconds of a call before there are others
    trial_seconds: float = 0.0  # that choosing it took
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@dataclass
class Comparison:
    """Medians in seconds of one size, one for each round."""

    point: Point
    ours: list[float] = field(default_factory=list)
    implementations: list[str] = field(default_factory=list)  # ours, as chosen in each round
    plain: dict[str, list[float]] = field(default_factory=dict)
    as_published: list[float] = field(default_factory=list)
    skipped: str | None = None

    def add(self, one: Round) -> None:
        self.ours.append(one.ours)
        self.implementations.append(one.implementation)
        for name, seconds in one.plain.items():
            self.plain.setdefault(name, []).append(seconds)

    @property
    def decided(self) -> bool:
        return len(self.ours) >= FEWEST_ROUNDS

    @property
    def fastest_plain(self) -> str:
        """Of those that took part in every round."""
        throughout = (name for name, found in self.plain.items() if len(found) == len(self.ours))
        return min(throughout, key=lambda name: statistics.median(self.plain[name]))

    def is_hopeless(self, name: str) -> bool:
        """Whether a plain call can't become the fastest."""
        if not self.decided:
            return False
        fastest = statistics.median(self.plain[self.fastest_plain])
        return statistics.median(self.plain[name]) > HOPELESS * fastest

    @property
    def ratios(self) -> list[float]:
        """Ours over the fastest plain call, round by round."""
        return [
            ours / plain
            for ours, plain in zip(self.ours, self.plain[self.fastest_plain], strict=True)
        ]

    def is_clear(self, rounds: int) -> bool:
        """Whether further rounds would hardly change the verdict.

        All of these first rounds are fast enough; or, after twice as many, the 95 % interval of
        the rounds' median lies on one side of the ratio allowed.
        """
        if len(self.ours) < rounds:
            return False
        if all(ratio <= ALLOWED_RATIO for ratio in self.ratios):
            return True
        interval = median_interval(self.ratios) if len(self.ours) >= 2 * rounds else None
        return interval is not None and not interval.low <= ALLOWED_RATIO <= interval.high

    @property
    def is_mixed(self) -> bool:
        """Whether rounds lie on both sides of the ratio allowed."""
        return min(self.ratios) <= ALLOWED_RATIO < max(self.ratios)

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
    bench = bench_for("cpu", Limits(max_seconds=seconds), threads=arguments.threads)
    console = Console(width=None if sys.stdout.isatty() else LOG_WIDTH)
    comparisons = []
    for point in points(suites, arguments.workloads):
        comparisons.append(compare(point, bench, arguments.rounds, arguments.budget_seconds))
        console.print(_line(comparisons[-1]), highlight=False)
    return report(comparisons, bench.threads, console)


def points(suites: Sequence[str], workloads: Sequence[str]) -> Iterator[Point]:
    """The suites' float32 rows, each once, by workload."""
    found = [point for suite in suites for point in SUITES[suite].points(["float32"])]
    for workload in workloads:
        seen: list[Mapping[str, int]] = []
        for point in found:
            if point.workload == workload and point.parameters not in seen:
                seen.append(point.parameters)
                yield point


def compare(point: Point, bench: Bench, rounds: int, budget_seconds: float) -> Comparison:
    """Time one size in rounds, as many as it takes to make clear who is the faster.

    Raises:
        ComparisonError: no implementation of ours is right, or a plain call's result is wrong.
    """
    comparison = Comparison(point)
    workload = WORKLOADS[point.workload]
    most = max(
        rival.working_set_bytes(point.parameters, point.dtype)
        for rival in workload.rivals(bench.device)
    )
    if not memory.has_room(2 * most, bench.device):
        comparison.skipped = "does not fit into memory twice"
        return comparison
    calls = list(PLAIN_CALLS[point.workload])
    started = time.perf_counter()
    ours: Runner | None = None
    while len(comparison.ours) < MORE_ROUNDS * rounds and not comparison.is_clear(rounds):
        if comparison.decided:
            budget = budget_seconds * (MORE_BUDGET if comparison.is_mixed else 1)
            if time.perf_counter() - started >= budget:
                break
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
    """The problem and the timer of a row, in the state in which it is measured."""
    workload = WORKLOADS[point.workload]
    with as_measured(workload, point.dtype), no_garbage_collection():
        yield Problem(workload, point.parameters, point.dtype, "cpu"), MonotonicTimer("cpu")
    memory.release("cpu")


def choose(point: Point, bench: Bench) -> Runner:
    """Our implementation, chosen by the trial that comes before each measurement.

    Raises:
        ComparisonError: none of them is right.
        RefusedError: none of them can try.
    """
    started = time.perf_counter()
    with problem_of(point) as (problem, _):
        chosen, rivals, _ = choose_rival(problem, bench)
    if chosen is None or chosen.rotation is None or chosen.threads is None:
        reasons = "; ".join(dict.fromkeys(str(rival.reason) for rival in rivals))
        if all(rival.outcome == "refused" or rival.out_of_memory for rival in rivals):
            raise RefusedError(reasons)
        raise ComparisonError(f"{_label(point)} as we compute it: {reasons}")
    return Runner(
        chosen.rival.name,
        chosen.rotation,
        chosen.threads,
        first=chosen.trial_seconds or chosen.cold_seconds or 0.0,
        trial_seconds=time.perf_counter() - started,
    )


def run_round(
    point: Point, bench: Bench, ours: Runner, calls: Sequence[PlainCall], *, check: bool
) -> Round:
    """Let our implementation and the plain calls take short turns: what changes hits all alike."""
    ours.seconds.clear()
    with problem_of(point) as (problem, timer):
        give_threads(bench.threads)
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
    """A plain call on each input set, and the seconds of its first.

    Raises:
        ComparisonError: it computes something else than the workload.
    """
    rotation = Rotation([plain.prepare(problem.inputs(i)) for i in range(input_sets)])
    first, output = timer.seconds(rotation.take())
    if check:
        _, wrong = problem.check(problem.inputs(0), as_tensor(output))
        if wrong:
            raise ComparisonError(f"{problem.workload.name} by {plain.name}: {wrong}")
    return Runner(plain.name, rotation, threads, first)


def take_turns(runners: Sequence[Runner], timer: MonotonicTimer, seconds: float) -> None:
    """Turn after turn, in any order, until there are so many seconds of them each."""
    switch_threads = len({runner.threads for runner in runners}) > 1
    ends = time.perf_counter() + len(runners) * seconds
    turns = 0
    while turns < FEWEST_TURNS or time.perf_counter() < ends:
        for runner in random.sample(runners, len(runners)):
            if switch_threads:
                give_threads(runner.threads)
            trial.take_turn(runner.rotation, timer, runner.seconds, runner.first)
        turns += 1


def report(comparisons: Sequence[Comparison], threads: int, console: Console) -> int:
    """Print a table for each workload and the verdict; 0 where nothing is too slow, else 1."""
    measured = [comparison for comparison in comparisons if not comparison.skipped]
    for workload in dict.fromkeys(comparison.point.workload for comparison in measured):
        rows = [comparison for comparison in measured if comparison.point.workload == workload]
        console.print(_table(workload, threads, rows))
        if workload in RECONSTRUCTED:
            console.print(f"as published: {RECONSTRUCTED[workload]}")
    for comparison in comparisons:
        if comparison.skipped:
            console.print(f"skipped: {_label(comparison.point)}: {comparison.skipped}")
    slow = [row for row in measured if not row.passed]
    if slow or not measured:
        labels = ", ".join(_label(comparison.point) for comparison in slow)
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
    return f"{_label(comparison.point)}: {comparison.skipped or _ratio(comparison)}"


def _times_ours(seconds: Sequence[float], ours: Sequence[float]) -> str:
    """Median, least and most of a single call each round, in our medians."""
    if not seconds:
        return ""
    our = statistics.median(ours)
    middle, least, most = (of(seconds) / our for of in (statistics.median, min, max))
    return f"{middle:.1f} ({least:.1f} to {most:.1f})"


def _label(point: Point) -> str:
    return f"{point.workload} {_size(point)}"


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
