"""The CI gate: decides whether a comparison passes, and says why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from batchmark.analysis.pairs.compared_rows import Row
from batchmark.analysis.side_by_side import MissingRow, verdict
from batchmark.core import formatting
from batchmark.report.site.compare import Comparison, relative_change
from batchmark.report.words import row_label

MACHINE = ("instance type", "cpu model", "cpu threads", "gpu model", "gpu count")


class Gate(NamedTuple):
    """Judges a new side, which comes first in the comparison, against a baseline."""

    comparison: Comparison
    missing: Sequence[MissingRow]  # on the new side
    missing_before: int  # rows of the new side that the baseline lacks
    measured: str  # repeats and samples of both sides, in words
    least_percent: float
    allow_missing: bool = False
    same_machine: bool = False  # slower rows pass if the machines differ
    require_decided: bool = False  # a row without a verdict fails

    @property
    def slower(self) -> list[Row]:
        """Rows that are definitely slower, by at least `least_percent`."""
        least = self.least_percent / 100
        return [
            row
            for row in self.comparison.rows
            if verdict(row) == "slower" and 1 / row.speedup.value - 1 >= least
        ]

    @property
    def failed(self) -> bool:
        return self._surely_failed or bool(self.undecided and self.require_decided)

    @property
    def _surely_failed(self) -> bool:
        slower = self.slower and not self.machines
        return bool(slower or (self.missing and not self.allow_missing))

    @property
    def compared(self) -> int:
        """The number of rows that could be compared."""
        return len(self.comparison.rows) - len(self.comparison.not_comparable)

    @property
    def undecided(self) -> int:
        """The number of compared rows without a verdict."""
        return len(self.comparison.not_known_yet)

    @property
    def machines(self) -> list[tuple[str, str, str]]:
        """Each machine property that should match but doesn't: its name and both values."""
        differences = self.comparison.differences if self.same_machine else []
        return [one for one in differences if one[0] in MACHINE]

    @property
    def reasons(self) -> Iterator[str]:
        """Yield a line for each slower or missing row and each machine property that differs.

        Undecided rows are included if `require_decided` is set.
        """
        for row in self.slower:
            yield f"Slower: {row_label(row)} ({_change(row)})"
        for lost in self.missing:
            yield f"Missing: {row_label(lost.row)}: {lost.reason}"
        for row in self.comparison.not_known_yet if self.require_decided else ():
            yield f"Undecided: {row_label(row)}"
        for name, new, baseline in self.machines:
            yield f"Different machine: {name} is {new}, but {baseline} in the baseline"

    @property
    def last_line(self) -> str:
        """The result in one line, with the number of rows of each kind."""
        barred = len(self.comparison.not_comparable)
        found = "failed" if self.failed else "passed"
        if not self.compared:
            found = "failed, as nothing was compared"
        elif self.compared == self.undecided and not self._surely_failed:
            found += ", as" if self.failed else ", but"
            found += f" it decided nothing ({self.comparison.next_step})"
        elif self.machines and not self.failed:
            found = "passed, as a slowdown on a different machine doesn't count"
        elif self.undecided and not self.failed:
            rows = formatting.count(self.undecided, "row")
            found = f"passed, but {rows} {'is' if self.undecided == 1 else 'are'} undecided"
        allowed = " (allowed)" if self.missing and self.allow_missing else ""
        return (
            f"Gate {found}: {formatting.count(self.compared, 'row')} compared, {len(self.slower)} "
            f"slower by {self.least_percent:g} % or more, {len(self.missing)} missing{allowed}, "
            f"{self.undecided} undecided{self._ruled_out}, "
            f"{f'{barred} not comparable, ' if barred else ''}{self.missing_before} missing from "
            f"the baseline; {self.measured}."
        )

    @property
    def _ruled_out(self) -> str:
        """How much slower undecided rows can be; empty if one of them has no interval."""
        worst = [
            1 / row.speedup.interval.low
            for row in self.comparison.not_known_yet
            if row.speedup.interval
        ]
        if not worst or len(worst) < self.undecided:
            return ""
        return f" (slower by at most {formatting.difference_text(max(worst) - 1)})"


def _change(row: Row) -> str:
    """Describe the row's relative change from the baseline, with its interval if that is wider."""
    ends = row.speedup.interval
    speedups = (row.speedup.value, *((ends.low, ends.high) if ends else ()))
    changes = [relative_change(row, speedup) for speedup in speedups]
    told = formatting.change(changes[0])
    low, high = formatting.change(min(changes)), formatting.change(max(changes))
    return told if low == high else f"{told} [{low}, {high}]"
