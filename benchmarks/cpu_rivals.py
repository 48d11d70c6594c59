"""Our CPU measurements beside plain library calls and the original code's approach, in one run.

All take turns on the same inputs, with the same threads, timer and limits. Exits with 1 where our
time is more than 1.05 times that of the fastest plain call.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from rich.console import Console
from rich.table import Table

from batchmark_job import memory
from batchmark_job.measure import Bench, Row, bench_for, measure
from batchmark_job.result import MeasurementStatus
from batchmark_job.sampling import (
    MonotonicTimer,
    Rotation,
    no_garbage_collection,
    sample,
    warm_up,
)
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
MORE_ROUNDS = 4  # times as many where rounds fall on both sides of ALLOWED_RATIO
LOG_WIDTH = 160  # of the tables where there is no terminal that has a width


class ComparisonError(Exception):
    """One side failed or computes something else, so that its time means nothing."""


@dataclass
class Comparison:
    """Medians in seconds of one size, one for each round."""

    point: Point
    ours: list[float] = field(default_factory=list)
    implementations: list[str] = field(default_factory=list)  # ours, as chosen in each round
    plain: dict[str, list[float]] = field(default_factory=dict)
    as_published: list[float] = field(default_factory=list)
    unsettled: int = 0  # rounds in which our samples drifted to the end; left out
    skipped: str | None = None

    @property
    def decided(self) -> bool:
        return len(self.ours) >= FEWEST_ROUNDS

    @property
    def fastest_plain(self) -> str:
        return min(self.plain, key=lambda name: statistics.median(self.plain[name]))

    @property
    def ratios(self) -> list[float]:
        """Ours over the fastest plain call, round by round."""
        return [
            ours / plain
            for ours, plain in zip(self.ours, self.plain[self.fastest_plain], strict=True)
        ]

    @property
    def rounds_agree(self) -> bool:
        """Whether all rounds lie on the same side of the ratio allowed."""
        return len({ratio <= ALLOWED_RATIO for ratio in self.ratios}) == 1

    @property
    def passed(self) -> bool:
        return self.decided and statistics.median(self.ratios) <= ALLOWED_RATIO


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the smoke suite only, shorter")
    parser.add_argument("--suites", nargs="+", choices=SUITES, help="default: smoke and blog")
    parser.add_argument("--workloads", nargs="+", choices=PLAIN_CALLS, default=list(PLAIN_CALLS))
    parser.add_argument(
        "--rounds",
        type=int,
        default=5,
        help=f"{FEWEST_ROUNDS} or more; up to {MORE_ROUNDS} times as many where they disagree",
    )
    parser.add_argument("--seconds", type=float, help="for each turn; default 1, quick 0.3")
    parser.add_argument("--threads", type=int, help="default: all that this process may use")
    parser.add_argument(
        "--budget-seconds",
        type=float,
        default=120.0,
        help=f"for each size; rounds stop after it, but not before the {FEWEST_ROUNDS}rd",
    )
    arguments = parser.parse_args()
    if arguments.rounds < FEWEST_ROUNDS:
        parser.error(f"--rounds {arguments.rounds} gives no spread; give {FEWEST_ROUNDS} or more")
    suites = arguments.suites or (["smoke"] if arguments.quick else ["smoke", "blog"])
    seconds = arguments.seconds or (0.3 if arguments.quick else 1.0)
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
    """Measure one size: in each round ourselves, then every plain call.

    A round in which our samples do not settle is counted, left out and made anew, as often as there
    are rounds. Where rounds fall on both sides of the ratio allowed, there are more of them.

    Raises:
        ComparisonError: our measurement failed, or a plain call's result is wrong.
    """
    comparison = Comparison(point)
    workload = WORKLOADS[point.workload]
    problem = Problem(workload, point.parameters, point.dtype, bench.device)
    calls = PLAIN_CALLS[point.workload]
    most = max(
        rival.working_set_bytes(point.parameters, point.dtype)
        for rival in workload.rivals(bench.device)
    )
    if not memory.has_room(2 * most, bench.device):
        comparison.skipped = "does not fit into memory twice"
        return comparison
    started = time.perf_counter()
    while comparison.unsettled < rounds and (
        len(comparison.ours) < rounds
        or (len(comparison.ours) < MORE_ROUNDS * rounds and not comparison.rounds_agree)
    ):
        if comparison.decided and time.perf_counter() - started >= budget_seconds:
            break
        measurement = measure(Row(workload, point.parameters, point.dtype), bench)
        if measurement.status is MeasurementStatus.SKIPPED:
            comparison.skipped = measurement.reason
            return comparison
        if measurement.status is MeasurementStatus.FAILED or measurement.implementation is None:
            raise ComparisonError(f"{_label(point)} as we measure it: {measurement.reason}")
        if measurement.status is MeasurementStatus.UNSETTLED:
            comparison.unsettled += 1
            continue
        comparison.ours.append(statistics.median(measurement.samples_seconds))
        comparison.implementations.append(measurement.implementation.name)
        give_threads(bench.threads)
        for call in calls:
            seconds = time_plain(
                call,
                problem,
                measurement.input_sets or 1,
                bench.limits,
                check=call.name not in comparison.plain,
            )
            comparison.plain.setdefault(call.name, []).append(seconds)
        published = seconds_as_published(point.workload, point.parameters)
        if published is not None:
            comparison.as_published.append(published)
    return comparison


def time_plain(
    plain: PlainCall, problem: Problem, input_sets: int, limits: Limits, *, check: bool
) -> float:
    """Median seconds of a plain call, timed as we time ourselves."""
    timer = MonotonicTimer(problem.device)
    samples: list[float] = []
    with torch.inference_mode(not problem.workload.needs_gradients), no_garbage_collection():
        rotation = Rotation([plain.prepare(problem.inputs(i)) for i in range(input_sets)])
        output = rotation.take()()
        if check:
            _, wrong = problem.check(problem.inputs(0), as_tensor(output))
            if wrong:
                raise ComparisonError(f"{problem.workload.name} by {plain.name}: {wrong}")
        del output
        warm_up(rotation, timer, limits)
        sample(rotation, timer, limits, samples)
    return statistics.median(samples)


def report(comparisons: Sequence[Comparison], threads: int, console: Console) -> int:
    """Print a table for each workload and the verdict; 0 where nothing is too slow, else 1."""
    measured = [comparison for comparison in comparisons if not comparison.skipped]
    compared = [comparison for comparison in measured if comparison.ours]
    for workload in dict.fromkeys(comparison.point.workload for comparison in compared):
        rows = [comparison for comparison in compared if comparison.point.workload == workload]
        console.print(_table(workload, threads, rows))
        if workload in RECONSTRUCTED:
            console.print(f"as published: {RECONSTRUCTED[workload]}")
    for comparison in comparisons:
        if comparison.skipped:
            console.print(f"skipped: {_label(comparison.point)}: {comparison.skipped}")
    undecided = [comparison for comparison in measured if not comparison.decided]
    for comparison in undecided:
        console.print(f"undecided: {_label(comparison.point)}: {_unsettled(comparison)}")
    slow = [row for row in measured if row.decided and not row.passed]
    if slow or not measured:
        labels = ", ".join(_label(comparison.point) for comparison in slow)
        console.print(f"slower than {ALLOWED_RATIO} x plain: {labels or 'nothing was measured'}")
        return 1
    if undecided:
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


def _unsettled(comparison: Comparison) -> str:
    made = len(comparison.ours) + comparison.unsettled
    return f"{comparison.unsettled} of {made} rounds unsettled"


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
    if not comparison.ours:
        return _unsettled(comparison)
    ratios = comparison.ratios
    text = (
        f"{statistics.median(ratios):.3f} ({min(ratios):.2f} to {max(ratios):.2f}, "
        f"{len(ratios)} rounds)"
    )
    return f"{text}, {_unsettled(comparison)}" if comparison.unsettled else text


if __name__ == "__main__":
    sys.exit(main())
