"""Runs that are slower than their series' noise explains, and what fresh jobs say of them.

A suspect run costs one fresh job. Only if that is slow, too, two more follow, and only if they
agree the run is the first of a slower level. So an outlier, which most suspects are, costs one job,
and a regression is known in the run that it first shows in. A new level that only the history shows
costs three: they are seldom, and one job says little of a small shift.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from batchmark import figures
from batchmark.change_records import ChangePoint, Confirmation, SeriesKey
from batchmark.change_search import LEAST_AFTER, LEAST_BEFORE, search, windows_before
from batchmark.noise_density import NoiseDensity, Prior
from batchmark.record import Record
from batchmark.regressions import Timeline, change_point, held_down, timeline

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from batchmark.noise_density import Array
    from batchmark.series_history import SeriesHistory

JOBS_OF_ROUND = (1, 2)  # fresh jobs, the second lot only if the first is slow, too
MOST_RERUNS = sum(JOBS_OF_ROUND)
LEAST_RERUNS = 2  # with a figure, to confirm a run
LEAST_RUNS = 6  # on a level, before a run of it can be odd
TAIL = 0.05  # of the noise, above a suspect; held over all series of its target
LEAST_LOG_SHIFT = 0.075  # of a suspect: less is left to the history, which needs more runs
LEAST_ERRORS = 1.4  # standard deviations
SLOW_SHARE = 0.4  # of a suspect's shift, that a fresh job must exceed to be slow, too
LARGE_LOG_SHIFT = 0.2  # of more it is not asked
EVIDENCE = 3.5  # log likelihood ratio of all fresh jobs together
EVIDENCE_OF_TWO = 4.5  # where one of them left no figure
CONFIRMED_LOG_SHIFT = 0.07  # of their median, at least
MIDDLE = 0.6  # of the way to the new level, which the fresh jobs' mean must exceed


class Suspect(Record):
    """A run, or a new level of several runs, that fresh jobs shall confirm."""

    series: SeriesKey
    run_id: str = Field(description="the run itself, or the first of the new level")
    kind: Literal["run", "level"]
    expected: float = Field(gt=0, description="level before, in seconds")
    seconds: float = Field(gt=0, description="the run's figure, or the new level's median")


class Suspects(Record):
    """Of a run, with why some can't be looked at again."""

    suspects: tuple[Suspect, ...]
    notes: tuple[str, ...] = ()

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.series.target for one in self.suspects))


@dataclass(frozen=True)
class Standing:
    """A series just before one of its runs: its level, and the noise about it.

    Attributes:
        place: of the run in `line`.
        start: first run of the level.
        noise: of one window, that before the run.
    """

    line: Timeline
    place: int
    start: int
    noise: NoiseDensity

    @property
    def log_level(self) -> float:
        return float(self.noise.center[0] + self.noise.mean[0])

    @property
    def log_sd(self) -> float:
        return float(self.noise.log_sd[0])

    def tail(self, log_value: float) -> float:
        """How often noise alone is as slow."""
        return float(
            self.noise.tail(np.zeros(1, int), np.array([log_value]) - self.noise.center)[0]
        )

    def evidence(self, logs: Array) -> float:
        """Log likelihood ratio of a higher level, of some jobs at once."""
        later = (logs - self.noise.center[0])[None, :]
        mean, median = later.mean(axis=1) - self.noise.mean, np.median(later, axis=1)
        found = self.noise.evidence(np.zeros(1, int), later, mean, median)
        return float(found[0]) if logs.mean() > self.log_level else 0.0


def standings(
    histories: Sequence[SeriesHistory],
    run_id: str,
    *,
    starts: Mapping[SeriesKey, Collection[str]],
    priors: Mapping[SeriesKey, Prior],
) -> dict[SeriesKey, Standing]:
    """How each series stood before a run; those with too few runs on their level left out.

    Args:
        histories: of times.
        starts: first runs of levels that are known already, as of alerts.
        priors: what calibrations say of the noise.
    """
    lines = [(history.key, timeline(history)) for history in histories]
    lines = [(key, line) for key, line in lines if run_id in line.run_ids]
    places = [line.run_ids.index(run_id) for _, line in lines]
    known = [priors.get(key, Prior()) for key, _ in lines]
    changes = search(
        [line.logs[:place] for (_, line), place in zip(lines, places, strict=True)], known
    )
    found = {}
    for (key, line), place, prior, own in zip(lines, places, known, changes, strict=True):
        told = [
            index for index, name in enumerate(line.run_ids[:place]) if name in starts.get(key, ())
        ]
        start = max([0, *told, *(change.index for change in own)])
        if place - start < LEAST_RUNS:
            continue
        noise = NoiseDensity.of(
            windows_before(line.logs, np.array([place]), start),
            np.array([prior.log_sd]),
            np.array([prior.runs]),
        )
        found[key] = Standing(line, place, start, noise)
    return found


def too_early(histories: Iterable[SeriesHistory]) -> str | None:
    """Why no change can show yet; None where a series has runs enough for all looks.

    Args:
        histories: of any metrics.
    """
    runs = max((one.usable().size for one in histories), default=0)
    needed = LEAST_BEFORE + LEAST_AFTER
    if runs >= needed:
        return None
    return (
        f"The longest series has {figures.count(runs, 'run')}: a change shows from {needed} on, a "
        f"slower run that fresh jobs confirm from {LEAST_RUNS + 1}."
    )


def suspect_runs(
    standing: Mapping[SeriesKey, Standing], uncertainty: Mapping[SeriesKey, float]
) -> list[Suspect]:
    """The runs that noise does not explain, held down over all series of a target.

    Args:
        uncertainty: relative half-width of a run's own median, from the samples inside it.
    """
    tails: dict[str, list[tuple[float, Suspect]]] = defaultdict(list)
    for key, one in standing.items():
        value = float(one.line.logs[one.place])
        shift = value - one.log_level
        surely = shift + np.log1p(-min(uncertainty.get(key, 0.0), 0.99))
        odd = shift > max(LEAST_LOG_SHIFT, LEAST_ERRORS * one.log_sd) and surely > 0
        suspect = Suspect(
            series=key,
            run_id=one.line.run_ids[one.place],
            kind="run",
            expected=float(np.exp(one.log_level)),
            seconds=float(np.exp(value)),
        )
        tails[key.target].append((one.tail(value) if odd else 1.0, suspect))
    return [
        suspect
        for own in tails.values()
        for (_, suspect), stands in zip(
            own, held_down([tail for tail, _ in own], len(own), TAIL), strict=True
        )
        if stands
    ]


def suspect_levels(
    points: Iterable[ChangePoint], told: Mapping[SeriesKey, Collection[str]]
) -> list[Suspect]:
    """New levels that only the history shows: slower ones that nobody was told of yet.

    Args:
        told: first runs of changes that are known, and of levels that fresh jobs refuted.
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
        and not set(point.near_run_ids) & set(told.get(point.series, ()))
    ]


def needs_more(standing: Standing | None, suspect: Suspect, reruns: Sequence[float]) -> bool:
    """Whether the first fresh job of a suspect is slow, too, or left no figure."""
    if suspect.kind == "level" or not reruns:
        return True
    if standing is None:
        return False
    asked = min(float(np.log(suspect.seconds / suspect.expected)), LARGE_LOG_SHIFT)
    return any(np.log(seconds) - standing.log_level > SLOW_SHARE * asked for seconds in reruns)


def verdict(
    standing: Standing | None,
    suspect: Suspect,
    reruns: Sequence[float],
    *,
    job_ids: Sequence[str],
    hosts: int | None,
    other_hosts: int | None = None,
) -> Confirmation:
    """What the fresh jobs say.

    Args:
        standing: of the series before the suspect run; None only for a level.
        reruns: of fresh jobs, in seconds.
        job_ids: of these.
        hosts: instances that they ran on; None if not known.
        other_hosts: of these, other ones than the run's own; None if not known.
    """
    logs = np.log(np.asarray(reruns, dtype=float))
    slower = figures.percent(suspect.seconds / suspect.expected - 1)
    if not logs.size:
        outcome, reason = "unsettled", "no fresh job left a figure"
    elif suspect.kind == "level":
        middle = np.log(suspect.expected) + MIDDLE * np.log(suspect.seconds / suspect.expected)
        agrees = float(logs.mean()) > middle
        outcome = "confirmed" if agrees else "refuted"
        reason = f"the mean of the fresh jobs is {'' if agrees else 'not '}at the new level"
    elif standing is None:
        outcome, reason = "unsettled", "the series has too few runs"
    elif not needs_more(standing, suspect, reruns):
        outcome, reason = "refuted", f"a fresh job was not slow; the run's {slower} were its own"
    elif logs.size < LEAST_RERUNS:
        outcome, reason = "unsettled", f"only {logs.size} of {MOST_RERUNS} fresh jobs has a figure"
    else:
        needed = EVIDENCE if logs.size >= MOST_RERUNS else EVIDENCE_OF_TWO
        strong = standing.evidence(logs) >= needed
        far = float(np.median(logs)) - standing.log_level >= CONFIRMED_LOG_SHIFT
        outcome = "confirmed" if strong and far else "refuted"
        reason = (
            f"{logs.size} fresh jobs agree"
            if strong and far
            else "the fresh jobs together are within the noise"
        )
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


def confirmed_point(
    history: SeriesHistory, standing: Standing, confirmation: Confirmation
) -> ChangePoint:
    """The change that a confirmed run is the first of, as far as is known in that run.

    Its new level is that of the run and the fresh jobs.
    """
    logs = np.log([confirmation.suspect, *confirmation.reruns])
    point = change_point(
        history,
        standing.line,
        standing.place,
        standing.line.logs[standing.start : standing.place],
        logs,
        standing.tail(float(np.median(logs))),
    )
    return point.model_copy(update={"after": point.after.model_copy(update={"runs": 1})})
