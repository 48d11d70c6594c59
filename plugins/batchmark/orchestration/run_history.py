"""A run, and what the history says of the series that it measured."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from batchmark.config import load_config
from batchmark.store import CHANGES, COLLECTED, PLAN, SUSPECTS, RunStore, rerun_name
from batchmark.triggers.batch import JOB_ID_XCOM

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow.sdk import Context

    from batchmark.alerts.records import Alert
    from batchmark.change_records import ChangePoint, Confirmation, Metric, Outcome, SeriesKey
    from batchmark.config import Config
    from batchmark.noise_density import Prior
    from batchmark.run import CollectedRun, RunPlan
    from batchmark.series_history import SeriesHistory
    from batchmark.suspects import Standing, Suspect

HISTORY_DAYS = 730
RECENT_RUNS = 30  # a change before these is none of this run's news
FIRST_TASK = "find_suspects"
RERUN_TASKS = ("rerun_once", "rerun_twice")  # by round


class Look:
    """A run, and what the history says of its series."""

    def __init__(self, context: Context, collected_key: str) -> None:
        from batchmark.run import CONFIRMATION, CollectedRun, RunPlan
        from batchmark.suspects import Suspects

        self.config: Config = load_config()
        self.run_id: str = context["run_id"]
        self.store = RunStore.of(self.config, self.run_id)
        whole = CollectedRun.model_validate_json(self.store.read(collected_key))
        # A retry finds the fresh jobs of its first try among them.
        self.collected: CollectedRun = whole.model_copy(
            update={
                name: tuple(
                    job for job in getattr(whole, name) if job.planned.purpose != CONFIRMATION
                )
                for name in ("jobs", "lost", "superseded")
            }
        )
        self.plan: RunPlan = RunPlan.model_validate_json(self.store.read(self.store.prefix + PLAN))
        self.suite: str = self.plan.jobs[0].suite
        self.suspects = Suspects(suspects=())

    @classmethod
    def of_suspects(cls, context: Context) -> Look:
        """The run as find_suspects left it.

        Raises:
            AirflowFailException: it failed.
            AirflowSkipException: it left nothing, as of a dry run.
        """
        from batchmark.suspects import Suspects

        # Where a run was cleared, what it left in an earlier life may still be there.
        states = context["ti"].get_task_states(
            dag_id=context["ti"].dag_id, task_ids=[FIRST_TASK], run_ids=[context["run_id"]]
        )
        ended = set(states.get(context["run_id"], {}).values())
        if "failed" in ended:
            raise AirflowFailException(f"{FIRST_TASK} failed: see its log, and clear it")
        store = RunStore.of(load_config(), context["run_id"])
        text = store.read_if_there(store.prefix + SUSPECTS) if "success" in ended else None
        if text is None or store.read_if_there(store.prefix + COLLECTED) is None:
            raise AirflowSkipException("the run has no results to look at; see collect_results")
        look = cls(context, store.prefix + COLLECTED)
        look.suspects = Suspects.model_validate_json(text)
        return look

    @cached_property
    def histories(self) -> dict[Metric, list[SeriesHistory]]:
        """By metric, of the series that this run measured."""
        from batchmark.history.series import COLUMNS, series_histories
        from batchmark.history.store import HistoryStore

        metrics: tuple[Metric, ...] = ("time", "price", "noise", "speedup")
        if not self.collected.jobs:
            return {metric: [] for metric in metrics}
        ended = max(job.document.finished_at for job in self.collected.jobs)
        table = HistoryStore.of(self.config).read(
            COLUMNS, suites=[self.suite], since=(ended - timedelta(days=HISTORY_DAYS)).date()
        )
        return {
            metric: [one for one in series_histories(table, metric) if self.run_id in one.run_ids]
            for metric in metrics
        }

    @cached_property
    def priors(self) -> dict[SeriesKey, Prior]:
        from batchmark.reruns import calibrated
        from batchmark.tasks import calibrations

        return calibrated(calibrations(self.store, self.collected), self.collected.jobs)

    @cached_property
    def alerts(self) -> list[Alert]:
        from batchmark.alerts.store import AlertStore

        return AlertStore(self.store).alerts()

    @cached_property
    def told(self) -> dict[SeriesKey, set[str]]:
        """First runs of the changes that alerts and good news told of.

        Without this run's own: where it is repeated, it decides as it did the first time.
        """
        from batchmark.alerts.store import AlertStore

        found: dict[SeriesKey, set[str]] = defaultdict(set)
        told = [one.change for one in self.alerts if one.transitions[0].run_id != self.run_id]
        told += [
            improvement.change
            for improvement in AlertStore(self.store).improvements()
            if improvement.run_id != self.run_id
        ]
        for change in told:
            for point in change.points:
                if point.metric == "time":
                    found[point.series].add(point.first_run_id)
        return found

    @cached_property
    def standing(self) -> dict[SeriesKey, Standing]:
        from batchmark.suspects import standings

        return standings(self.histories["time"], self.run_id, starts=self.told, priors=self.priors)

    def points(self, metric: Metric) -> list[ChangePoint]:
        """Recent changes of one metric: improvements, and what got worse and still is."""
        newest = {(point.series, point.metric): point for point in self._all_points}
        return [
            point
            for point in self._all_points
            if point.metric == metric
            and len(self._runs_since(point, point.first_run_id)) <= RECENT_RUNS
            and (not point.worse or point is newest[point.series, metric])
        ]

    @cached_property
    def _all_points(self) -> list[ChangePoint]:
        from batchmark.regressions import detect_changes

        return detect_changes(
            [one for own in self.histories.values() for one in own], priors=self.priors
        )

    @cached_property
    def judged(self) -> dict[Outcome, dict[SeriesKey, set[str]]]:
        """What fresh jobs of earlier runs said of the recent slower levels that nobody was told of.

        A confirmed one is among them where it is too small to tell.
        """
        from batchmark.change_records import RunChanges

        told = self.told
        runs = {
            run_id
            for point in self.points("time")
            if point.worse and not set(point.near_run_ids) & told.get(point.series, set())
            for run_id in self._runs_since(point, point.near_run_ids[0])
        }
        found: dict[Outcome, dict[SeriesKey, set[str]]] = defaultdict(lambda: defaultdict(set))
        for run_id in sorted(runs - {self.run_id}):
            earlier = self.store.of_run(run_id)
            if text := earlier.read_if_there(earlier.prefix + CHANGES):
                for one in RunChanges.model_validate_json(text).confirmations:
                    # That a run was an outlier says nothing of a level that begins near it.
                    if one.kind == "level" and one.run_id not in told.get(one.series, ()):
                        found[one.outcome][one.series].add(one.run_id)
        return found

    @cached_property
    def settled(self) -> dict[SeriesKey, set[str]]:
        """Of the recent slower levels: what nobody has to look at again."""
        return _together(self.told, self.judged["refuted"], self.judged["confirmed"])

    def _runs_since(self, point: ChangePoint, run_id: str) -> Sequence[str]:
        from batchmark.regressions import timeline

        history = next(one for one in self.histories[point.metric] if one.key == point.series)
        runs = timeline(history).run_ids
        return runs[runs.index(run_id) :]

    def find(self, uncertainty: Mapping[SeriesKey, float]) -> list[Suspect]:
        """The new levels and runs that fresh jobs shall confirm.

        Args:
            uncertainty: see `suspect_runs`.
        """
        from batchmark.suspects import suspect_levels, suspect_runs

        levels = suspect_levels(self.points("time"), self.settled)
        on_new_levels = {one.series for one in levels}
        runs = suspect_runs(self.standing, uncertainty)
        return [*levels, *(one for one in runs if one.series not in on_new_levels)]

    def news(self, verdicts: Sequence[Confirmation]) -> list[ChangePoint]:
        """The recent changes of all metrics, with what fresh jobs confirmed, without the refuted.

        A speedup that moved where a time is known to have moved, or was refuted, is no news.
        """
        now = defaultdict(set)
        for one in verdicts:
            if one.outcome == "refuted" and one.kind == "level":
                now[one.series].add(one.run_id)
        refuted = _together(self.judged["refuted"], now)
        known = _together(self.settled, now)
        found = [
            *(
                point
                for metric in ("time", "price", "noise")
                for point in self.points(metric)
                if metric != "time" or not point.worse or not _is_about(point, refuted)
            ),
            *(point for point in self.points("speedup") if not _is_about(point, known)),
        ]
        seen = {
            (one.series, run_id) for one in found if not one.worse for run_id in one.near_run_ids
        }
        found += [one for one in self._recoveries() if (one.series, one.first_run_id) not in seen]
        return found + self._confirmed(verdicts, found)

    def _confirmed(
        self, verdicts: Iterable[Confirmation], found: Sequence[ChangePoint]
    ) -> list[ChangePoint]:
        """The confirmed runs that the history does not show yet."""
        from batchmark.suspects import confirmed_point

        times = {one.key: one for one in self.histories["time"]}
        shown = {(one.series, run_id) for one in found for run_id in one.near_run_ids}
        return [
            confirmed_point(times[one.series], self.standing[one.series], one)
            for one in verdicts
            if one.outcome == "confirmed"
            and one.series in self.standing
            and (one.series, one.run_id) not in shown
        ]

    def _recoveries(self) -> Iterable[ChangePoint]:
        from batchmark.alerts.records import WATCHED
        from batchmark.recoveries import recoveries

        return recoveries(
            self.histories["time"],
            [
                point
                for alert in self.alerts
                if alert.state in WATCHED
                for point in alert.change.points
                if point.metric == "time" and point.series not in alert.back
            ],
        )

    def plan_jobs(self, number: int, planned: RunPlan) -> list[dict[str, Any]]:
        """Keep a round's plan; return the operator's arguments for each job.

        Where no fresh job may run, an earlier plan stays: what it submitted is paid, and counts.
        """
        from batchmark.planning import operator_kwargs

        if self.suspects.notes:
            return []
        self.store.write(rerun_name(number), planned.model_dump_json(indent=2))
        return [operator_kwargs(self.config, self.run_id, job) for job in planned.jobs]

    def collect(self, context: Context, *, rounds: int) -> CollectedRun:
        """What the fresh jobs of the first rounds left."""
        import boto3

        from batchmark.reruns import collect_rounds

        return collect_rounds(
            self.store,
            boto3.client("batch", region_name=self.config.region),
            boto3.client("logs", region_name=self.config.region),
            run_id=self.run_id,
            config=self.config,
            rounds=rounds,
            told_ids=lambda number, count: context["ti"].xcom_pull(
                task_ids=RERUN_TASKS[number - 1], key=JOB_ID_XCOM, map_indexes=range(count)
            ),
        )

    def verdict(self, suspect: Suspect, fresh: CollectedRun) -> Confirmation:
        from batchmark.reruns import figures_of
        from batchmark.suspects import verdict

        measured = list(figures_of(suspect, fresh.jobs))
        hosts = {job.host for job, _ in measured}
        own = {
            job.host for job in self.collected.jobs if job.planned.target == suspect.series.target
        }
        return verdict(
            self.standing.get(suspect.series),
            suspect,
            [seconds for _, seconds in measured],
            job_ids=[job.job_id for job, _ in measured],
            hosts=None if None in hosts or not hosts else len(hosts),
            other_hosts=None if None in hosts | own or not hosts else len(hosts - own),
        )


def _together(*parts: Mapping[SeriesKey, set[str]]) -> dict[SeriesKey, set[str]]:
    return {
        key: set().union(*(part.get(key, ()) for part in parts)) for part in parts for key in part
    }


def _is_about(point: ChangePoint, runs: Mapping[SeriesKey, set[str]]) -> bool:
    """Whether a change is at one of the runs told of its series, or of one side of its speedup."""
    row = point.series
    sides = {row.target, row.against}
    return any(
        not ids.isdisjoint(point.near_run_ids)
        for key, ids in runs.items()
        if key.target in sides
        and (key.workload, key.parameters, key.dtype) == (row.workload, row.parameters, row.dtype)
    )
