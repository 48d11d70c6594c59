"""The verdict on each size of cpu_rivals.py: its rounds, when they are enough, and a table."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from batchmark_job.measuring.samples.sample_statistics import median_interval
from batchmark_job.suites import Point
from benchmarks.job.plain_calls import RECONSTRUCTED

ALLOWED_RATIO = 1.05  # equal processes differ by up to 4 % (docs/decisions/0018)
FEWEST_ROUNDS = 3  # with fewer, one disturbed round could decide the median
MORE_BUDGET = 5  # times the budget while a size's rounds lie on both sides of ALLOWED_RATIO
MORE_ROUNDS = 12  # times the rounds, if the verdict needs that many
HOPELESS = 1.5  # times the fastest plain call's median: slower calls are dropped


class Round(NamedTuple):
    ours: float
    implementation: str
    plain: Mapping[str, float]  # without calls that ran out of memory


@dataclass
class Comparison:
    """The results at one size: each side's median seconds in each round."""

    point: Point
    ours: list[float] = field(default_factory=list)
    implementations: list[str] = field(default_factory=list)  # our choice in each round
    plain: dict[str, list[float]] = field(default_factory=dict)
    as_published: list[float] = field(default_factory=list)
    skipped: str | None = None
    failed: str | None = None
    out_of_memory: tuple[str, ...] = ()  # plain calls for which the machine is too small
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
        if self.failed or not self.decided:
            return False
        return statistics.median(self.ratios) <= ALLOWED_RATIO


def report(comparisons: Sequence[Comparison], threads: int, console: Console) -> int:
    """Print a table per workload and the verdict, and return the exit code.

    It is 1 if anything is too slow or failed, or if nothing was measured; else 0.
    """
    not_measured = [row for row in comparisons if row.skipped or row.failed]
    measured = [row for row in comparisons if row not in not_measured]
    for workload, rows in groupby(measured, key=lambda row: row.point.workload):
        console.print(_table(workload, threads, list(rows)))
        if workload in RECONSTRUCTED:
            console.print(f"as published: {RECONSTRUCTED[workload]}")
    for row in not_measured:
        console.print(f"{'failed' if row.failed else 'skipped'}: {line(row)}")
    slow = [row.label for row in measured if not row.passed]
    if slow:
        verdict = f"slower than the fastest plain call by over {ALLOWED_RATIO - 1:.0%}: "
        console.print(verdict + ", ".join(slow))
    elif measured:
        every = f"all {len(measured)} ratios to the fastest plain call are"
        console.print(f"{every} <= {ALLOWED_RATIO}")
    else:
        console.print("nothing was measured")
    failed = any(row.failed for row in not_measured)
    return 1 if slow or failed or not measured else 0


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


def line(comparison: Comparison) -> str:
    if comparison.failed:  # which names the size
        return comparison.failed
    line = f"{comparison.label}: {comparison.skipped or _ratio(comparison)}"
    lost = ", ".join(comparison.out_of_memory)
    return f"{line}; out of memory: {lost}" if lost else line


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
