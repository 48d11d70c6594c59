"""Runs synthetic series through the product's own code, run by run, from suspects to alerts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batchmark.aws.result_bucket import CHANGES, RunStore
from batchmark.changes.alerts.merging import merge
from batchmark.changes.alerts.settings import AlertSettings
from batchmark.changes.alerts.store import AlertStore
from batchmark.changes.attribution import group_changes
from batchmark.changes.detection import DetectorSettings
from batchmark.changes.false_alerts import runs_a_month
from batchmark.changes.records import (
    ChangePoint,
    Confirmation,
    RunChanges,
    Series,
    SeriesKey,
    moment,
)
from batchmark.changes.self_test.replay import Replay
from batchmark.changes.suspects import JOBS_OF_ROUND, needs_more, suspects_among, verdict
from batchmark.orchestration.run_history import RunHistory
from benchmarks.synthetic import RUNS_A_MONTH, daily, run_name

ONE_OF = 1  # number of series watched


@dataclass(frozen=True, eq=False)
class SyntheticSeries:
    """A synthetic series with a suite and target to itself."""

    cell: str
    step: float | None  # size relative to the true one
    key: SeriesKey
    seconds: NDArray[np.float64]  # (runs, jobs), the scheduled job first; NaN if missing
    rises: Sequence[int]  # first runs of slower levels

    @cached_property
    def measured(self) -> NDArray[np.int64]:
        """Indexes of the runs with a measurement."""
        return np.flatnonzero(np.isfinite(self.seconds[:, 0]))

    @property
    def history(self) -> Series:
        """The scheduled jobs' measurements, as a series."""
        return daily(self.key, self.measured, self.seconds[self.measured, 0])


@dataclass
class Outcome:
    """A simulated series' suspects, fresh jobs and alerts.

    An alert consists of the first run at the slower level, the run that raised the alert, and the
    kind of suspect.
    """

    series: SyntheticSeries
    suspects: int = 0
    jobs: int = 0  # fresh jobs that ran
    fresh: dict[str, list[float]] = field(default_factory=dict)  # figures of fresh jobs, by run
    alerts: list[tuple[int, int, str]] = field(default_factory=list)
    submitted: Counter[int] = field(default_factory=Counter)  # by run

    def submit(self, run: int, count: int) -> None:
        """Simulate `count` more fresh jobs for a run."""
        figures = self.fresh.setdefault(run_name(run), [])
        self.suspects += not self.submitted[run]
        new = self.series.seconds[run, 1 + self.submitted[run] :][:count]
        figures += new[np.isfinite(new)].tolist()
        self.submitted[run] += count
        self.jobs += count


class Memory:
    """An in-memory S3 client for RunStore."""

    exceptions = SimpleNamespace(NoSuchKey=KeyError)

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def put_object(self, *, Key: str, Body: bytes, **_: object) -> None:  # noqa: N803
        self.objects[Key] = Body

    def get_object(self, *, Key: str, **_: object) -> dict[str, Any]:  # noqa: N803
        return {"Body": BytesIO(self.objects[Key]), "ETag": ""}

    def get_paginator(self, _operation: str) -> Memory:
        return self

    def paginate(self, *, Prefix: str, **_: object) -> Iterable[Any]:  # noqa: N803
        yield {"Contents": [{"Key": key} for key in self.objects if key.startswith(Prefix)]}


class SimulatedRunHistory(RunHistory):
    """A run and its series' history, held in memory."""

    def __init__(self, store: RunStore, run_id: str, times: list[Series]) -> None:
        self.store, self.run_id = store, run_id
        self.histories = {"time": times, "price": [], "noise": [], "speedup": []}
        self.priors = {}
        # As if each were one of so many series on the weekly schedule.
        share = runs_a_month(times) / (ONE_OF * RUNS_A_MONTH)
        self.settings = DetectorSettings(false_alerts_a_month=share)


def play(series: Sequence[SyntheticSeries]) -> list[Outcome]:
    """Simulate all the series' runs in order, as on a schedule."""
    store = RunStore(Memory(), "results", "schedule")
    outcomes = {each.key: Outcome(each) for each in series}
    replay = Replay([each.history for each in series])
    for place in range(replay.runs):
        _play_run(store, replay.measured_at(place), outcomes)
    return list(outcomes.values())


def _play_run(store: RunStore, times: list[Series], outcomes: Mapping[SeriesKey, Outcome]) -> None:
    """Simulate a run: find suspects, run fresh jobs, judge the results, and open alerts.

    The run is the last one in each series of `times`.
    """
    run_id = times[0].run_ids[-1]
    times = [replace(one, fresh=outcomes[one.key].fresh) for one in times]
    run = SimulatedRunHistory(store.of_run(run_id), run_id, times)
    found = [one for own in times for one in suspects_among([own], run.weighed, {})]
    open_now = found
    for count in JOBS_OF_ROUND:
        for suspect in open_now:
            outcomes[suspect.series].submit(number_of(run_id), count)
        asked = {one.series for one in open_now}
        now = run.weigh([one for one in times if one.key in asked])
        open_now = [
            one
            for one in open_now
            if needs_more(outcomes[one.series].fresh[run_id], now.get(one.series))
        ]
    shown = run.shown(times)
    verdicts = [
        verdict(
            one,
            outcomes[one.series].fresh[run_id],
            run.weighed.get(one.series),
            shown,
            job_ids=(),
            hosts=None,
        )
        for one in found
    ]
    kinds = {each.series: each.kind for each in verdicts}
    for point in _alerted(run, run.news(shown, verdicts), verdicts):
        kind = kinds.get(point.series, "level")
        alert = (number_of(point.first_run_id), number_of(run_id), kind)
        outcomes[point.series].alerts.append(alert)


def _alerted(
    run: RunHistory, points: Sequence[ChangePoint], verdicts: Sequence[Confirmation]
) -> list[ChangePoint]:
    """Store the run's new changes; return the change points in the alerts they open."""
    changes = group_changes(
        points, {}, measured=[each.key for each in run.histories["time"]], confirmations=verdicts
    )
    found = RunChanges(run_id=run.run_id, changes=changes, confirmations=tuple(verdicts))
    run.store.write(CHANGES, found.model_dump_json())
    alerts = AlertStore(run.store)
    merged = merge(
        run.alerts,
        alerts.improvements(),
        changes,
        AlertSettings(),
        run_id=run.run_id,
        at=moment(run.histories["time"][0].recorded_at[-1]),
    )
    message: Any = merged  # has every attribute that apply() reads
    alerts.apply(message)
    return [point for alert in merged.opened for point in alert.change.points]


def number_of(run_id: str) -> int:
    return int(run_id.removeprefix("run-"))
