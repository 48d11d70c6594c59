"""Selects series to be measured again by fresh jobs, and judges the results.

A run is a suspect if noise hardly explains it, or if it and the runs before it provide much of the
evidence that a slower level needs. Its fresh jobs add figures to its series, which the search
weighs like all others (`timelines.ledger`), so a level that they confirm shows up in the same run.
One job runs first, and two more if the level is still possible. Most suspects are outliers, and
therefore cost only one job.

`make bench-reruns` evaluates the constants, and `python -m benchmarks.detector.reruns HARNESS --set
NAME=VALUE` shows what another value would do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from batchmark.changes.change_points import Newest, newest
from batchmark.changes.detection import controlled_false_discoveries
from batchmark.changes.evidence import EVIDENCE, LEAST_AFTER, LEAST_BEFORE
from batchmark.changes.noise_model import Prior
from batchmark.changes.records import ChangePoint, Confirmation, RerunOutcome, Series, SeriesKey
from batchmark.changes.timelines import ledger
from batchmark.core import formatting
from batchmark.core.record import Record

JOBS_OF_ROUND = (1, 2)  # fresh jobs; the second round only if the level may still be there
MOST_RERUNS = sum(JOBS_OF_ROUND)
LEAST_HISTORY = LEAST_BEFORE + LEAST_AFTER  # runs, before any change can show without fresh jobs
TAIL = 0.02  # false discovery rate among the newest runs of all series of a target
ODD_LOG_SHIFT = 0.075  # of a run that is odd by itself; smaller shifts are left to the evidence
ASK = 0.55  # share of EVIDENCE, from which on fresh jobs may complete it
# If fresh jobs settled nothing in this many of the newest runs, more hardly would: the history
# decides, and a series whose fresh jobs are always faster doesn't cost a job in each run.
MOST_ASKED, ASKED_RUNS = 3, 10
MORE = 0.77  # share of it, with a first fresh job, from which on two more follow
MEMORY = 0.4  # correlation of neighbouring runs with which a level needs more than twice the runs
COUNTER_EVIDENCE = 3.0  # log likelihood ratio of the old level that refutes a suspect


class Suspect(Record):
    """One or more consecutive runs that might be at a slower level."""

    series: SeriesKey
    run_id: str = Field(description="ID of the run, or of the first one if there are several")
    kind: Literal["run", "level"]
    expected: float = Field(gt=0, description="the previous level, in the units of `Level.median`")
    seconds: float = Field(
        gt=0, description="the run's figure, or the median figure of several runs, in those units"
    )

    @property
    def log_shift(self) -> float:
        return float(np.log(self.seconds / self.expected))


class Suspects(Record):
    """A run's suspects, why some can't be measured again, and which series are autocorrelated."""

    suspects: tuple[Suspect, ...]
    notes: tuple[str, ...] = ()
    hard_to_watch: str | None = None

    @property
    def rows(self) -> tuple[SeriesKey, ...]:
        return tuple(dict.fromkeys(one.series for one in self.suspects))


def too_early(runs: int) -> str | None:
    """Explain why no change can be found in a series of only `runs` runs; None if one can."""
    if (missing := runs_missing(runs)) is None:
        return None
    known = f"the longest history has {formatting.count(runs, 'run')}"
    return f"Not known yet against earlier runs: {known}. {missing}"


def runs_missing(runs: int) -> str | None:
    """Say how many more runs an alert needs and what reduces that; None if it needs no more."""
    more, if_measured_again = LEAST_HISTORY - runs, LEAST_BEFORE + 1 - runs
    if more <= 0:
        return None
    sooner = f"or {if_measured_again}" if if_measured_again > 0 else "or none"
    return (
        f"An alert needs {more} more, {sooner} if a slow run is measured again "
        f"and stays slow. That takes {formatting.count(more, 'day')} with daily "
        f"runs or {formatting.count(more, 'week')} with weekly runs. More repeats "
        "reveal smaller changes."
    )


def weigh(
    histories: Sequence[Series],
    run_id: str,
    priors: Mapping[SeriesKey, Prior],
    evidence: float = EVIDENCE,
) -> dict[SeriesKey, Newest]:
    """Weigh the evidence for a slower level in each series that ends with this run.

    `histories` contains series of times; `evidence` is the amount that a change in them needs.
    Series whose newest level has too few runs are left out.
    """
    lines = [(one, ledger(one)) for one in histories]
    ending = [(one, line) for one, line in lines if line.run_ids[-1:] == [run_id]]
    weighed = newest(
        [line.logs for _, line in ending],
        [priors.get(one.key, Prior()) for one, _ in ending],
        [one.has_fresh for one, _ in ending],
        [evidence] * len(ending),
    )
    return {one.key: found for (one, _), found in zip(ending, weighed, strict=True) if found}


def why_unwatchable(weighed: Mapping[SeriesKey, Newest]) -> str | None:
    """Say which series have autocorrelated noise, and suggest a remedy; None if none have it."""
    found = [
        f"{key.row} on {key.target}" for key, one in weighed.items() if one.correlation >= MEMORY
    ]
    if not found:
        return None
    return (
        f"{len(found)} of {formatting.count(len(weighed), 'series', 'series')} "
        f"can't be watched closely ({formatting.shortened_list(found)}): their "
        "slow runs occur in clusters, so a change takes more than twice as many "
        "runs to detect, and more alerts are caused by noise. Pin the "
        "availability zone, or increase repeats."
    )


def suspects_among(
    histories: Sequence[Series],
    weighed: Mapping[SeriesKey, Newest],
    uncertainty: Mapping[SeriesKey, float],
) -> list[Suspect]:
    """Find the series to measure again, limiting false suspects per target.

    `weighed` comes from `weigh`, without the run's fresh jobs. `uncertainty` is the relative
    half-width of the interval around a run's own median, computed from its samples.
    """
    tails: dict[str, list[tuple[float, Suspect]]] = defaultdict(list)
    for history in histories:
        if one := weighed.get(history.key):
            found = _suspicion(history, one, uncertainty.get(history.key, 0.0))
            tails[history.key.target].append(found)
    return [
        suspect
        for of_target in tails.values()
        for (_, suspect), counts in zip(
            of_target,
            controlled_false_discoveries([tail for tail, _ in of_target], len(of_target), TAIL),
            strict=True,
        )
        if counts and suspect.log_shift > 0
    ]


def _suspicion(history: Series, one: Newest, uncertainty: float) -> tuple[float, Suspect]:
    """Return the newest figures' probability under noise alone, and those figures as a suspect.

    The probability is 1 if fresh jobs already ran in too many of the newest runs.
    """
    line = ledger(history)
    value = float(line.logs[-1])
    shift = value - one.log_level
    certain = shift + np.log1p(-min(uncertainty, 0.99))
    odd = one.tail(value) if shift > ODD_LOG_SHIFT and certain > 0 else 1.0
    # The probability that noise alone gathers this much evidence falls exponentially with it.
    gathered = min(1.0, TAIL * float(np.exp(EVIDENCE * ASK - one.gathered)))
    first = one.index if gathered < odd else line.logs.size - 1
    runs = list(dict.fromkeys(line.run_ids[first:]))
    suspect = Suspect(
        series=history.key,
        run_id=runs[0],
        kind="level" if len(runs) > 1 else "run",
        expected=float(np.exp(one.log_level)),
        seconds=float(np.exp(np.median(line.logs[first:]))),
    )
    newest_runs = list(dict.fromkeys(line.run_ids))[-ASKED_RUNS:]
    asked = sum(bool(history.fresh.get(run_id)) for run_id in newest_runs)
    return min(odd, gathered) if asked < MOST_ASKED else 1.0, suspect


def needs_more(reruns: Sequence[float], now: Newest | None) -> bool:
    """Check whether a suspect's first fresh job was inconclusive or produced no figure.

    `now` is the evidence from all figures, including the fresh job's.
    """
    return not reruns or (now is not None and now.gathered >= EVIDENCE * MORE)


def verdict(
    suspect: Suspect,
    reruns: Sequence[float],
    before: Newest | None,
    shown: Iterable[ChangePoint],
    *,
    job_ids: Sequence[str],
    hosts: int | None,
    other_hosts: int | None = None,
) -> Confirmation:
    """Judge a suspect by its fresh jobs' figures.

    `before` is the evidence without those figures, and `shown` contains changes found with them.
    `hosts` is the number of instances that the jobs ran on, and `other_hosts` is how many of these
    the run did not use; each is None if unknown.
    """
    outcome, reason = _outcome(suspect, reruns, before, shown)
    return Confirmation(
        series=suspect.series,
        kind=suspect.kind,
        run_id=suspect.run_id,
        expected=suspect.expected,
        suspect=suspect.seconds,
        reruns=tuple(float(one) for one in reruns),
        job_ids=tuple(job_ids),
        hosts=hosts,
        other_hosts=other_hosts,
        outcome=outcome,
        reason=reason,
    )


def _outcome(
    suspect: Suspect, reruns: Sequence[float], before: Newest | None, shown: Iterable[ChangePoint]
) -> tuple[RerunOutcome, str]:
    if not reruns:
        return "unsettled", "no fresh job produced a result"
    jobs = formatting.count(len(reruns), "fresh job")
    if any(
        point.worse and point.series == suspect.series and suspect.run_id in point.near_run_ids
        for point in shown
    ):
        return "confirmed", f"with {jobs} the slower level is certain"
    evidence = before.evidence(suspect.log_shift, np.log(reruns)) if before else 0.0
    if evidence <= -COUNTER_EVIDENCE:
        return "refuted", f"{jobs} {'was' if len(reruns) == 1 else 'were'} at the old level"
    return "unsettled", f"{jobs} can't tell the levels apart; the next runs will"
