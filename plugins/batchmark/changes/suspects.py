"""Runs that are slower than their series' noise explains, and what fresh jobs say of them.

A suspect run costs one fresh job. Only if that is slow, too, two more run, and only if they agree
is the run the first of a slower level. So an outlier, which most suspects are, costs one job, and a
regression is known in the run in which it first shows. A new level that only the history shows
costs three jobs: such levels are rare, and one job says little about a small shift.

The constants were set by simulating a prototype. `make bench-reruns` measures them, and
`python -m benchmarks.detector.reruns HARNESS --set NAME=VALUE` what another value would do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from batchmark.changes.change_points import LEAST_AFTER, LEAST_BEFORE, search, windows_before
from batchmark.changes.detection import (
    Timeline,
    change_point,
    controlled_false_discoveries,
    timeline,
)
from batchmark.changes.noise_model import NoiseDensity, Prior
from batchmark.changes.records import ChangePoint, Confirmation, RerunOutcome, Series, SeriesKey
from batchmark.core import formatting
from batchmark.core.record import Record

if TYPE_CHECKING:
    from batchmark.changes.noise_model import Array

JOBS_OF_ROUND = (1, 2)  # fresh jobs; the second round only if the first is slow, too
MOST_RERUNS = sum(JOBS_OF_ROUND)
LEAST_RERUNS = 2  # with a figure, to confirm a run: one alone may be an outlier itself
LEAST_RUNS = 6  # on a level before a run can stand out from it
LEAST_HISTORY = LEAST_BEFORE + LEAST_AFTER  # before any change can show
TAIL = 0.02  # false discovery rate among the runs of all series of a target
LEAST_LOG_SHIFT = 0.075  # of a suspect; smaller shifts are left to the history, which sees more
SLOW_SHARE = 0.4  # of a suspect's shift above which a fresh job counts as slow, too
LARGE_LOG_SHIFT = 0.2  # of larger shifts no more is asked
EVIDENCE = 3.5  # log likelihood ratio that all fresh jobs together need
EVIDENCE_OF_TWO = 4.5  # if one of them left no figure: two err more easily than three
CONFIRMED_LOG_SHIFT = 0.07  # least shift of their median; about that of a suspect
COUNTER_EVIDENCE = 3.0  # log likelihood ratio that refutes a level which the history shows


class Suspect(Record):
    """A run, or a new level of several runs, that fresh jobs are to confirm."""

    series: SeriesKey
    run_id: str = Field(description="the run itself, or the first of the new level")
    kind: Literal["run", "level"]
    expected: float = Field(gt=0, description="level before, in seconds")
    seconds: float = Field(gt=0, description="the run's figure, or the new level's median")

    @property
    def log_shift(self) -> float:
        return float(np.log(self.seconds / self.expected))


class Suspects(Record):
    """A run's suspects, and why some can't be measured again."""

    suspects: tuple[Suspect, ...]
    notes: tuple[str, ...] = ()

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.series.target for one in self.suspects))


@dataclass(frozen=True)
class NoiseBefore:
    """A series just before one of its runs: its level, and the noise about it."""

    line: Timeline
    place: int  # index of the run in `line`
    start: int  # index of the first run of the level
    noise: NoiseDensity  # of a single window, the one before the run

    @property
    def log_level(self) -> float:
        return float(self.noise.center[0] + self.noise.mean[0])

    def tail(self, log_value: float) -> float:
        """Probability that noise alone is at least as slow."""
        return float(self.noise.tail(np.array([log_value]) - self.noise.center)[0])

    def evidence(self, logs: Array) -> float:
        """Log likelihood ratio of a higher level, for all of some jobs, shape (n,).

        Scaled down the less exactly the old level is known.
        """
        shifts = logs.mean() - self.log_level, np.median(logs) - self.noise.center[0]
        known = self.noise.runs[0] / (self.noise.runs[0] + logs.size)
        found = [self.evidence_of(shift, logs) for shift in shifts if shift > 0]
        return float(known * max([0.0, *found]))

    def evidence_between(self, suspect: Suspect, logs: Array) -> float:
        """Log likelihood ratio of a suspect's new level against its old one, for all jobs."""
        moved = logs - np.log(suspect.expected) + self.log_level
        return self.evidence_of(suspect.log_shift, moved)

    def evidence_of(self, log_shift: float, logs: Array) -> float:
        """Log likelihood ratio of this shift of the level, for all of some jobs, shape (n,)."""
        later = (logs - self.noise.center[0])[None, :]
        return float(
            np.sum(self.noise.log_density(later - log_shift) - self.noise.log_density(later))
        )


def noise_before(
    histories: Sequence[Series],
    run_id: str,
    *,
    starts: Mapping[SeriesKey, Collection[str]],
    priors: Mapping[SeriesKey, Prior],
) -> dict[SeriesKey, NoiseBefore]:
    """Estimate each series' noise just before a run, unless its level has too few runs.

    Histories are of times; `starts` are first runs of levels that are known otherwise, as from
    alerts; priors are what calibrations say of the noise.
    """
    lines = [
        (history.key, line)
        for history in histories
        if run_id in (line := timeline(history)).run_ids
    ]
    places = [line.run_ids.index(run_id) for _, line in lines]
    known = [priors.get(key, Prior()) for key, _ in lines]
    changes = search(
        [line.logs[:place] for (_, line), place in zip(lines, places, strict=True)], known
    )
    found = {}
    for (key, line), place, prior, shown in zip(lines, places, known, changes, strict=True):
        earlier = line.run_ids[:place]
        given = [earlier.index(name) for name in starts.get(key, ()) if name in earlier]
        start = max([0, *given, *(change.index for change in shown)])
        if place - start < LEAST_RUNS:
            continue
        noise = NoiseDensity.of(
            windows_before(line.logs, np.array([place]), start),
            np.array([prior.log_sd]),
            np.array([prior.runs]),
        )
        found[key] = NoiseBefore(line, place, start, noise)
    return found


def too_early(runs: int) -> str | None:
    """Say why no change can show yet if the longest series has so many runs; None if one can."""
    if runs >= LEAST_HISTORY:
        return None
    return (
        f"Not known yet: the longest history has {formatting.count(runs, 'run')}. A change needs "
        f"{LEAST_HISTORY} runs to show; {LEAST_RUNS + 1} if a slow run is measured again and "
        "stays slow."
    )


def suspect_runs(
    before: Mapping[SeriesKey, NoiseBefore], uncertainty: Mapping[SeriesKey, float]
) -> list[Suspect]:
    """Find the runs that noise does not explain; false ones are controlled for each target.

    The uncertainty is the relative half-width of a run's own median, from the samples inside it.
    """
    tails: dict[str, list[tuple[float, Suspect]]] = defaultdict(list)
    for key, one in before.items():
        value = float(one.line.logs[one.place])
        shift = value - one.log_level
        certain = shift + np.log1p(-min(uncertainty.get(key, 0.0), 0.99))
        stands_out = shift > LEAST_LOG_SHIFT and certain > 0
        suspect = Suspect(
            series=key,
            run_id=one.line.run_ids[one.place],
            kind="run",
            expected=float(np.exp(one.log_level)),
            seconds=float(np.exp(value)),
        )
        tails[key.target].append((one.tail(value) if stands_out else 1.0, suspect))
    return [
        suspect
        for of_target in tails.values()
        for (_, suspect), counts in zip(
            of_target,
            controlled_false_discoveries([tail for tail, _ in of_target], len(of_target), TAIL),
            strict=True,
        )
        if counts
    ]


def suspect_levels(
    points: Iterable[ChangePoint], known: Mapping[SeriesKey, Collection[str]]
) -> list[Suspect]:
    """Find the slower levels that only the history shows and nobody was told of yet.

    Known are first runs of changes that were announced, and of levels that fresh jobs refuted.
    """
    return [
        Suspect(
            series=point.series,
            run_id=point.first_run_id,
            kind="level",
            expected=point.before.median,
            seconds=point.after.median,
        )
        for point in points
        if point.metric == "time"
        and point.worse
        and not set(point.near_run_ids) & set(known.get(point.series, ()))
    ]


def needs_more(before: NoiseBefore | None, suspect: Suspect, reruns: Sequence[float]) -> bool:
    """Tell whether a suspect's first fresh job is slow, too, or left no figure."""
    if suspect.kind == "level" or not reruns:
        return True
    if before is None:
        return False
    asked = min(suspect.log_shift, LARGE_LOG_SHIFT)
    return any(np.log(seconds) - before.log_level > SLOW_SHARE * asked for seconds in reruns)


def verdict(
    before: NoiseBefore | None,
    suspect: Suspect,
    reruns: Sequence[float],
    *,
    job_ids: Sequence[str],
    hosts: int | None,
    other_hosts: int | None = None,
) -> Confirmation:
    """Judge a suspect by its fresh jobs' seconds.

    Only a level may have no series before it. `hosts` are the instances that the jobs ran on,
    `other_hosts` those that are not the run's own; None where not known.
    """
    logs = np.log(np.asarray(reruns, dtype=float))
    if not logs.size:
        outcome, reason = _unsettled("no fresh job left a figure")
    elif suspect.kind == "level":
        outcome, reason = _level_verdict(before, suspect, logs)
    elif before is None:
        outcome, reason = _unsettled("the series has too few runs")
    else:
        outcome, reason = _run_verdict(before, suspect, reruns, logs)
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


def _unsettled(reason: str) -> tuple[RerunOutcome, str]:
    return "unsettled", reason


def _level_verdict(
    before: NoiseBefore | None, suspect: Suspect, logs: Array
) -> tuple[RerunOutcome, str]:
    """The history has evidence for it already, so only counter-evidence refutes it."""
    if before is None:
        return _unsettled("the level before has too few runs to say how its jobs scatter")
    evidence = before.evidence_between(suspect, logs)
    if evidence >= 0:
        return "confirmed", "the fresh jobs are rather at the new level"
    if evidence <= -COUNTER_EVIDENCE:
        return "refuted", "the fresh jobs are at the old level"
    return _unsettled("the fresh jobs don't tell the old level from the new one")


def _run_verdict(
    before: NoiseBefore, suspect: Suspect, reruns: Sequence[float], logs: Array
) -> tuple[RerunOutcome, str]:
    if not needs_more(before, suspect, reruns):
        slower = formatting.percent(suspect.seconds / suspect.expected - 1)
        return "refuted", f"a fresh job was not slow; the run's {slower} were its own"
    if logs.size < LEAST_RERUNS:
        return _unsettled(f"only {logs.size} of {MOST_RERUNS} fresh jobs has a figure")
    needed = EVIDENCE if logs.size >= MOST_RERUNS else EVIDENCE_OF_TWO
    shift = float(np.median(logs)) - before.log_level
    if before.evidence(logs) >= needed and shift >= CONFIRMED_LOG_SHIFT:
        return "confirmed", f"{logs.size} fresh jobs agree"
    return "refuted", "the fresh jobs together are within the noise"


def confirmed_point(
    history: Series, before: NoiseBefore, confirmation: Confirmation
) -> ChangePoint:
    """The change that begins with a confirmed run, as far as it is known in that run.

    Its new level is that of the run and the fresh jobs.
    """
    logs = np.log([confirmation.suspect, *confirmation.reruns])
    point = change_point(
        history,
        before.line,
        before.place,
        before.line.logs[before.start : before.place],
        logs,
        before.tail(float(np.median(logs))),
    )
    return point.model_copy(update={"after": point.after.model_copy(update={"runs": 1})})
