"""Compares our CPU times with those of plain library calls and of the published approach.

Our side is the implementation that a row's trial chooses; the trial is repeated in each round
unless it takes long. The plain calls run with every thread count that a trial can choose. Each side
has its own process, and all take short turns on the same inputs with the same timer; where memory
does not hold all sides, they run one after the other. Exits with 1 if our time at any size is more
than 1.05 times that of the fastest plain call, if a size failed, or if nothing was measured.
harness_overhead.py measures the overhead of measuring.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from rich.console import Console

from batchmark_job.machine import memory
from batchmark_job.measuring import steps
from batchmark_job.measuring.candidate import Candidate
from batchmark_job.measuring.implementation_choice import start_prepared
from batchmark_job.measuring.limits import RowLimits
from batchmark_job.measuring.measured_row import Bench
from batchmark_job.measuring.processes.answers import FirstCall
from batchmark_job.measuring.processes.workers import ForkedWorkers, StepError, Worker, ignore
from batchmark_job.measuring.rows import Row
from batchmark_job.progress import name_and_threads
from batchmark_job.result.document import MeasurementStatus
from batchmark_job.suites import SUITES, Point
from batchmark_job.workloads.builtin import WORKLOADS
from benchmarks.job import plain_calls
from benchmarks.job.plain_calls import PLAIN_CALLS, prepare_plain, seconds_as_published
from benchmarks.job.rival_verdicts import (
    ALLOWED_RATIO,
    FEWEST_ROUNDS,
    MORE_BUDGET,
    MORE_ROUNDS,
    Comparison,
    Round,
    line,
    report,
)

FEWEST_TURNS = 2  # per side and round
FIRST_LOOK_SECONDS = 0.1  # per side, a fifth of the usual: rough, as a first look never fails
DEFAULT_SUITES = ("smoke", "blog", "training")  # every workload, at sizes that don't take hours
LONG_TRIAL_SECONDS = 10.0  # the choice of a longer trial is kept for all rounds
# A plain call's share of our largest working set: torch's convolution in its default layout held
# 6.4 GiB where ours needs 2.3 GiB (size 2048, batch 2, two threads).
PLAIN_SHARE = 3
LOG_WIDTH = 160  # columns if output is not a terminal


class ComparisonError(Exception):
    """One side of a size failed or computed a wrong result, so its time is meaningless."""


class RefusedError(Exception):
    """None of our implementations can run, usually because there is too little memory."""


class Rival(NamedTuple):
    """A plain library call on a given number of threads."""

    call: str
    threads: int

    @property
    def name(self) -> str:
        return f"{self.call} on {self.threads}"


class Side(NamedTuple):
    """A side that isn't running yet."""

    name: str
    start: Callable[[], Worker]


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
    # Otherwise each process would import what these do, which takes longer than its turns.
    pool = ForkedWorkers(modules=(plain_calls.__name__, __spec__.name))
    with closing(pool) as workers:  # otherwise the exit waits for workers that an error left behind
        machine = workers.run(steps.look_around, "cpu", arguments.threads or 0, False)
        bench = Bench.of(machine, RowLimits(max_seconds=seconds), workers)
        console = Console(width=None if sys.stdout.isatty() else LOG_WIDTH)
        comparisons = []
        for point in points(suites, arguments.workloads):
            try:
                comparisons.append(compare(point, bench, *rounds))
            except ComparisonError as error:
                comparisons.append(Comparison(point, failed=str(error)))
            console.print(line(comparisons[-1]), highlight=False)
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
    with ExitStack() as chosen:  # closes our choice's row, also where a round fails
        while not comparison.is_over(rounds, started, budget_seconds):
            if ours is None or ours.trial_seconds <= LONG_TRIAL_SECONDS:
                chosen.close()
                try:
                    ours = choose(point, bench)
                except RefusedError as error:
                    comparison.skipped = None if comparison.decided else str(error)
                    break
                chosen.callback(ours.row.close)
            need = (1 + len(calls)) * PLAIN_SHARE * most
            found = run_round(
                point,
                bench,
                ours,
                calls,
                check=not comparison.ours,
                at_once=memory.has_room(need, bench.device),
            )
            lost = [call.name for call in calls if call.name not in found.plain]
            comparison.out_of_memory += tuple(lost)
            if len(lost) == len(calls):
                comparison.skipped = "there is not enough memory for any plain call"
                break
            comparison.add(found)
            calls = [
                call
                for call in calls
                if call.name not in lost and not comparison.is_hopeless(call.name)
            ]
            # It runs in this process, with which everything would end.
            fits = memory.has_room(PLAIN_SHARE * most, bench.device)
            if fits and rounds >= FEWEST_ROUNDS and len(comparison.ours) <= rounds:
                published = seconds_as_published(point.workload, point.parameters)
                if published is not None:
                    comparison.as_published.append(published)
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
        row.close()
        raise RefusedError(str(error)) from error
    if row.chosen is None:
        reason = row.measurement.reason if row.measurement else None
        row.close()
        if row.measurement and row.measurement.status is MeasurementStatus.SKIPPED:
            raise RefusedError(reason)
        raise ComparisonError(f"{Comparison(point).label}: our side failed: {reason}")
    return Choice(row, row.chosen, time.perf_counter() - started)


def run_round(
    point: Point,
    bench: Bench,
    ours: Choice,
    calls: Sequence[Rival],
    *,
    check: bool,
    at_once: bool,
) -> Round:
    """Let our implementation and the plain calls take turns, and return the median of each.

    Because they take turns, drift affects all of them alike. Unless `at_once`, each side takes all
    its turns alone, in random order, and a plain call that runs out of memory is left out.

    Raises:
        ComparisonError: one of them fails, or its result is wrong.
    """
    problem = ours.row.problem(bench)
    sets = ours.row.input_sets
    us = name_and_threads(ours.candidate.implementation)
    start_ours = partial(start_prepared, problem, ours.candidate, sets, bench.workers, ignore)
    sides = [Side(us, start_ours)]
    sides += [
        Side(call.name, partial(bench.workers.start, prepare_plain, problem, *call, sets))
        for call in calls
    ]
    found: dict[Side, float] = {}
    for group in [sides] if at_once else [[side] for side in random.sample(sides, len(sides))]:
        try:
            found |= take_part(group, point, bench.limits.max_seconds, check=check)
        except StepError as error:
            if at_once or group == sides[:1] or not error.out_of_memory:
                raise ComparisonError(f"{Comparison(point).label}: {error}") from error
    plain = {side.name: found[side] for side in sides[1:] if side in found}
    return Round(found[sides[0]], us, plain)


def take_part(
    sides: Sequence[Side], point: Point, seconds: float, *, check: bool
) -> dict[Side, float]:
    """Run these sides beside each other, and return the median seconds of each one's calls.

    Raises:
        ComparisonError: a result is wrong.
        StepError: a call failed.
    """
    runners = [Runner(side.name, side.start()) for side in sides]
    try:
        for runner in runners:
            begin(runner, point, check=check)
        take_turns(runners, seconds)
    finally:
        for runner in runners:
            runner.worker.end()
    return {side: runner.median for side, runner in zip(sides, runners, strict=True)}


def begin(runner: Runner, point: Point, *, check: bool) -> None:
    """Make a side's first call.

    Raises:
        ComparisonError: the result is wrong.
        StepError: the call failed.
    """
    runner.worker.get_ready()
    first: FirstCall = runner.worker.ask("first_call")
    if check and first.wrong:
        raise ComparisonError(f"{Comparison(point).label} by {runner.name}: {first.wrong}")


def take_turns(runners: Sequence[Runner], seconds: float) -> None:
    """Let the runners take turns in random order, for `seconds` each on average."""
    ends = time.perf_counter() + len(runners) * seconds
    turns = 0
    while turns < FEWEST_TURNS or time.perf_counter() < ends:
        for runner in random.sample(runners, len(runners)):
            runner.seconds += runner.worker.ask("turn")
        turns += 1


if __name__ == "__main__":
    sys.exit(main())
