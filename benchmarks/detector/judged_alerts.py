"""Compares simulated series' alerts with their true steps, and summarises the results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.detector.simulated_schedule import Outcome

MARGIN, LATEST = 5, 40  # runs, as in the harness's own judgement
FULLY_EXPECTED = 0.1  # smaller steps need not be found in their first run
LEAST_FOUND, LEAST_SOON, LEAST_AT_ONCE = 0.9, 0.82, 0.7
MOST_FALSE, MOST_EXTRA = 0.3, 0.06
HEADER = (
    "cell                   runs  suspects  extra jobs  false (run, level)  "
    "steps   found  within 5  same run  from 10 %"
)


class Judged(NamedTuple):
    """A simulated outcome compared with the series' true steps."""

    outcome: Outcome
    delays: Sequence[int | None]  # by step: runs on the new level until its alert, if there was one
    false: Sequence[str]  # by false alert: the kind of its suspect


def judge(outcome: Outcome) -> Judged:
    """Match each step with the first alert near it; each alert matches at most one step."""
    place = {int(run): number for number, run in enumerate(outcome.series.measured)}
    alerts = [(place[first], place[at] + 1, kind) for first, at, kind in outcome.alerts]
    delays: list[int | None] = []
    for rise in (place[run] for run in outcome.series.rises):
        near = [
            alert
            for alert in alerts
            if abs(alert[0] - rise) <= MARGIN and 0 < alert[1] - rise <= LATEST
        ]
        first = min(near, key=lambda alert: alert[1], default=None)
        delays.append(first[1] - rise if first else None)
        if first:
            alerts.remove(first)
    return Judged(outcome, delays, [kind for _, _, kind in alerts])


class Figures(NamedTuple):
    runs: int
    suspects: int
    jobs: int
    false: Sequence[str]
    delays: Sequence[int | None]
    delays_of_large: Sequence[int | None]

    @classmethod
    def of(cls, results: Sequence[Judged]) -> Figures:
        return cls(
            runs=sum(result.outcome.series.measured.size for result in results),
            suspects=sum(result.outcome.suspects for result in results),
            jobs=sum(result.outcome.jobs for result in results),
            false=[kind for result in results for kind in result.false],
            delays=[delay for result in results for delay in result.delays],
            delays_of_large=[
                delay
                for result in results
                if (result.outcome.series.step or 0) >= FULLY_EXPECTED
                for delay in result.delays
            ],
        )

    @property
    def false_alerts(self) -> float:
        """False alerts per 1,000 runs."""
        return 1000 * len(self.false) / self.runs

    @property
    def extra(self) -> float:
        """Fresh jobs per run."""
        return self.jobs / self.runs

    @property
    def at_once(self) -> float | None:
        """Share of large steps found in their first run, or None if there were no large steps."""
        return share(self.delays_of_large, 1)

    def row(self, name: str) -> str:
        kinds = f"{self.false.count('run')}, {self.false.count('level')}"
        return (
            f"{name:<21} {self.runs:6,} {self.suspects:9,} {self.extra:11.1%} "
            f"{self.false_alerts:6.2f} {f'({kinds})':<12}{len(self.delays):5} "
            f"{text(share(self.delays, LATEST)):>7} {text(share(self.delays, 5)):>9} "
            f"{text(share(self.delays, 1)):>9} {text(self.at_once):>10}"
        )

    def missed(self) -> list[str]:
        found = []
        if self.false_alerts > MOST_FALSE:
            found.append(
                f"{self.false_alerts:.2f} false alerts per 1,000 runs; the limit is {MOST_FALSE}"
            )
        for value, least, what in (
            (share(self.delays, LATEST), LEAST_FOUND, "of all steps are found"),
            (share(self.delays, 5), LEAST_SOON, "are found within 5 runs"),
            (
                self.at_once,
                LEAST_AT_ONCE,
                f"of steps from {FULLY_EXPECTED:.0%} are found at once",
            ),
        ):
            if value is not None and value < least:
                found.append(f"{value:.1%} {what}; the goal is {least:.0%}")
        if self.extra > MOST_EXTRA:
            found.append(f"{self.extra:.1%} extra jobs; the limit is {MOST_EXTRA:.0%}")
        return found


def share(delays: Sequence[int | None], most: int) -> float | None:
    """Return the share of steps found within `most` runs, or None if there were no steps."""
    if not delays:
        return None
    return sum(delay is not None and delay <= most for delay in delays) / len(delays)


def text(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
