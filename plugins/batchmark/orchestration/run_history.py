"""A run and its series' history, with the suspects, verdicts and changes worth reporting."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from itertools import chain
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from batchmark.analysis.judging.noise import NoiseTable, parse_table
from batchmark.aws.boto_clients import client
from batchmark.aws.result_bucket import COLLECTED, SUSPECTS, RunStore, noise_key, rerun_name
from batchmark.changes.alerts.records import WATCHED, Alert
from batchmark.changes.alerts.store import AlertStore
from batchmark.changes.change_points import Newest
from batchmark.changes.detection import DetectorSettings, detect_changes, recoveries
from batchmark.changes.false_alerts import evidence_needed
from batchmark.changes.metric import Metric
from batchmark.changes.noise_model import Prior
from batchmark.changes.records import ChangePoint, Confirmation, Series, SeriesKey
from batchmark.changes.suspects import Suspect, Suspects, verdict, weigh
from batchmark.changes.timelines import timeline
from batchmark.core.config import Config
from batchmark.core.errors import NoiseError
from batchmark.core.run import (
    CONFIRMATION,
    CollectedJob,
    CollectedRun,
    PlannedJob,
    RunPlan,
    StoredRun,
)
from batchmark.history.columns import ALL_COLUMNS
from batchmark.history.rows import Row
from batchmark.history.series import COLUMNS, series_histories
from batchmark.history.store import HistoryStore
from batchmark.orchestration.reruns import calibrated_noise, figures_by_series
from batchmark.orchestration.settings import config_of, load_config, load_detector_settings
from batchmark.orchestration.telling import tell
from batchmark.orchestration.xcom import JOB_ID_XCOM, NOT_RUN_XCOM, RERUN_TASKS, states_of
from batchmark.runs.collected_runs import stored_run
from batchmark.runs.collecting import collect_run
from batchmark.runs.own_jobs.sides import with_environments
from batchmark.runs.plans.planning import all_operator_kwargs

HISTORY_DAYS = 730  # 104 weekly runs; the search weighs at most 60 before a change and 40 since
RECENT_RUNS = 30  # an older change is no news in this run
FIND_SUSPECTS = "find_suspects"


class RunHistory:
    def __init__(self, context: Context, collected_key: str) -> None:
        """Read the run and its plan; measurements are read from the history only when needed.

        Raises:
            AirflowSkipException: the run was never collected.
        """
        self.run_id: str = context["run_id"]
        config = load_config()
        self.store = RunStore.of(config, self.run_id)
        whole = stored_run(self.store, collected_key)
        if whole is None:
            raise AirflowSkipException(
                "the run has no collected results; see the log of its task collect_results"
            )
        # Without fresh jobs: a retry finds those of the first try among them.
        scheduled = {
            name: tuple(job for job in getattr(whole, name) if job.planned.purpose != CONFIRMATION)
            for name in ("jobs", "lost", "superseded")
        }
        self.collected: StoredRun = whole.model_copy(update=scheduled)
        self.plan: RunPlan = with_environments(self.store.plan(), context["params"])
        self.config: Config = config_of(self.plan, config)
        self.suite: str = self.plan.jobs[0].suite
        self.suspects = Suspects(suspects=())  # what find_suspects stored; none before it did

    @classmethod
    def of_suspects(cls, context: Context) -> RunHistory:
        """Load the run along with the suspects that find_suspects stored.

        Raises:
            AirflowFailException: find_suspects failed.
            AirflowSkipException: no suspects were stored, as in a dry run.
        """
        # What a cleared run left in an earlier life may still be there.
        ended = states_of(context, FIND_SUSPECTS)
        if "failed" in ended:
            raise AirflowFailException(
                f"{FIND_SUSPECTS} failed: fix the cause shown in its log, then clear it"
            )
        store = RunStore.of(load_config(), context["run_id"])
        text = store.read_if_there(store.prefix + SUSPECTS) if "success" in ended else None
        if text is None:
            raise AirflowSkipException(
                "the run has no collected results; see the log of its task collect_results"
            )
        run = cls(context, store.prefix + COLLECTED)
        run.suspects = Suspects.model_validate_json(text)
        return run

    @cached_property
    def histories(self) -> dict[Metric, list[Series]]:
        """The histories of this run's series, by metric, excluding its fresh jobs."""
        if not self.collected.jobs:
            return {metric: [] for metric in Metric}
        ended = max(job.stopped_at for job in self.collected.jobs)
        table = HistoryStore.of(self.config).read(
            COLUMNS, suites=[self.suite], since=(ended - timedelta(days=HISTORY_DAYS)).date()
        )
        found = {
            metric: [one for one in series_histories(table, metric) if self.run_id in one.run_ids]
            for metric in Metric
        }
        # A retry finds the fresh jobs of the first try.
        return found | {
            Metric.TIME: [_with_fresh(one, self.run_id, ()) for one in found[Metric.TIME]]
        }

    @cached_property
    def rows(self) -> list[Row]:
        """All of this run's history rows, except those from its fresh jobs."""
        table = HistoryStore.of(self.config).read(
            ALL_COLUMNS, suites=[self.suite], run_ids=[self.run_id]
        )
        return [row for row in table.to_pylist() if row["purpose"] != CONFIRMATION]

    @cached_property
    def settings(self) -> DetectorSettings:
        return load_detector_settings()

    @cached_property
    def priors(self) -> dict[SeriesKey, Prior]:
        return calibrated_noise(calibrations(self.store, self.collected), self.rows)

    @cached_property
    def alerts(self) -> list[Alert]:
        return AlertStore(self.store).alerts()

    @property
    def _earlier_alerts(self) -> list[Alert]:
        return [one for one in self.alerts if one.transitions[0].run_id != self.run_id]

    @property
    def earlier_verdicts(self) -> list[Confirmation]:
        """Fresh jobs' verdicts from the alerts that earlier runs opened."""
        return [found for alert in self._earlier_alerts for found in alert.change.confirmations]

    @cached_property
    def announced(self) -> dict[SeriesKey, set[str]]:
        """The first runs of the changes in times that alerts or improvements announced, by series.

        This run's announcements are excluded, so that a retry decides as the first try did.
        """
        found: dict[SeriesKey, set[str]] = defaultdict(set)
        changes = [alert.change for alert in self._earlier_alerts]
        changes += [
            improvement.change
            for improvement in AlertStore(self.store).improvements()
            if improvement.run_id != self.run_id
        ]
        for change in changes:
            for point in change.points:
                if point.metric == Metric.TIME:
                    found[point.series].add(point.first_run_id)
        return found

    @cached_property
    def weighed(self) -> dict[SeriesKey, Newest]:
        """The evidence that each series became slower, excluding this run's fresh jobs."""
        return self.weigh(self.histories[Metric.TIME])

    def weigh(self, times: Sequence[Series]) -> dict[SeriesKey, Newest]:
        """Weigh the evidence that these series became slower in this run."""
        evidence = evidence_needed(self.histories[Metric.TIME], self.settings.false_alerts_a_month)
        return weigh(times, self.run_id, self.priors, evidence)

    def times_with(self, fresh: CollectedRun) -> list[Series]:
        """Return the time histories with this run's fresh jobs included."""
        measured = figures_by_series(fresh.jobs)
        return [
            _with_fresh(one, self.run_id, [value for _, value in measured.get(one.key, ())])
            for one in self.histories[Metric.TIME]
        ]

    def shown(self, times: Sequence[Series]) -> list[ChangePoint]:
        """Detect changes in all metrics; `times` are the time histories including fresh jobs."""
        others = [own for metric, own in self.histories.items() if metric != Metric.TIME]
        return detect_changes(list(chain(times, *others)), self.settings, self.priors)

    def _recent(self, points: Sequence[ChangePoint]) -> list[ChangePoint]:
        """Return the recent changes: all improvements, and the regressions that persist."""
        last = {(point.series, point.metric): point for point in points}
        return [
            point
            for point in points
            if len(self._runs_since(point, point.first_run_id)) <= RECENT_RUNS
            and (not point.worse or point is last[point.series, point.metric])
        ]

    def _runs_since(self, point: ChangePoint, run_id: str) -> Sequence[str]:
        history = next(one for one in self.histories[point.metric] if one.key == point.series)
        runs = timeline(history).run_ids
        return runs[runs.index(run_id) :]

    def news(
        self, shown: Sequence[ChangePoint], verdicts: Sequence[Confirmation]
    ) -> list[ChangePoint]:
        """Return the changes worth reporting: recent ones in all metrics, and recoveries.

        A speedup's change is dropped if a change in one of its times explains it or was refuted.
        """
        explained = {series: set(run_ids) for series, run_ids in self.announced.items()}
        for one in verdicts:
            if one.outcome in ("confirmed", "refuted"):
                explained.setdefault(one.series, set()).add(one.run_id)
        found = [
            point
            for point in self._recent(shown)
            if point.metric != Metric.SPEEDUP or not _is_about(point, explained)
        ]
        seen = {
            (one.series, run_id) for one in found if not one.worse for run_id in one.near_run_ids
        }
        back = [one for one in self._recoveries() if (one.series, one.first_run_id) not in seen]
        return found + back

    def _recoveries(self) -> Iterable[ChangePoint]:
        return recoveries(
            self.histories[Metric.TIME],
            [
                point
                for alert in self.alerts
                if alert.state in WATCHED
                for point in alert.change.points
                if point.metric == Metric.TIME and point.series not in alert.back
            ],
        )

    def plan_jobs(self, number: int, planned: RunPlan) -> list[dict[str, Any]]:
        """Store a round's plan, and return the operator arguments for each of its jobs.

        If no fresh job may run, any earlier plan is kept, because its jobs were paid for and count.
        """
        if self.suspects.notes:
            return []
        self.store.write(rerun_name(number), planned.model_dump_json(indent=2))
        return all_operator_kwargs(self.config, self.run_id, planned.jobs)

    def collect(self, context: Context, *, rounds: int) -> CollectedRun:
        """Collect results of the first `rounds` rounds of fresh jobs; empty if there were none."""
        found = CollectedRun(run_id=self.run_id, jobs=())
        for number, task_id in enumerate(RERUN_TASKS[:rounds], start=1):
            if planned := self.store.plan(rerun_name(number)).jobs:
                found = found.joined(
                    collect_jobs(context, self.store, self.config, task_id, planned)
                )
        return found

    def verdicts(self, fresh: CollectedRun, shown: Sequence[ChangePoint]) -> list[Confirmation]:
        """Judge the suspects by their fresh jobs, given the changes detected with them (`shown`).

        Also logs the verdicts. Without fresh jobs, there are none.
        """
        if not (fresh.jobs or fresh.lost):
            return []
        measured = figures_by_series(fresh.jobs)
        new = [
            point
            for point in shown
            if not _begins_near(point, self.announced.get(point.series, set()))
        ]
        found = [
            self._verdict(one, measured.get(one.series, []), new) for one in self.suspects.suspects
        ]
        for one in found:
            tell(f"{one.outcome}: {one.series.target} {one.series.workload}: {one.reason}")
        return found

    def _verdict(
        self,
        suspect: Suspect,
        measured: Sequence[tuple[CollectedJob, float]],
        shown: Sequence[ChangePoint],
    ) -> Confirmation:
        hosts = {job.host for job, _ in measured}
        run_hosts = {
            job.host for job in self.collected.jobs if job.planned.target == suspect.series.target
        }
        return verdict(
            suspect,
            [seconds for _, seconds in measured],
            self.weighed.get(suspect.series),
            shown,
            job_ids=[job.job_id for job, _ in measured],
            hosts=None if None in hosts or not hosts else len(hosts),
            other_hosts=None if None in hosts | run_hosts or not hosts else len(hosts - run_hosts),
        )


def collect_jobs(
    context: Context, store: RunStore, config: Config, task_id: str, planned: Sequence[PlannedJob]
) -> CollectedRun:
    """Collect results from the jobs that one of this run's mapped tasks submitted."""
    places = range(len(planned))

    def told(key: str) -> list[Any]:
        """Return the mapped tasks' XComs in the order of the plan."""
        return list(context["ti"].xcom_pull(task_ids=task_id, key=key, map_indexes=places))

    not_run = {place: str(why) for place, why in enumerate(told(NOT_RUN_XCOM)) if why}
    return collect_run(
        store,
        client("batch", config.region),
        client("logs", config.region),
        run_id=context["run_id"],
        planned=planned,
        job_ids=told(JOB_ID_XCOM),
        config=config,
        not_run=not_run,
    )


def _with_fresh(series: Series, run_id: str, figures: Sequence[float]) -> Series:
    return replace(series, fresh={**series.fresh, run_id: figures})


def _begins_near(point: ChangePoint, run_ids: set[str]) -> bool:
    return not run_ids.isdisjoint(point.near_run_ids)


def _is_about(point: ChangePoint, runs: Mapping[SeriesKey, set[str]]) -> bool:
    """Return whether a speedup's change begins near one of the `runs` given for its two times."""
    row = point.series
    sides = {row.target, row.against}
    return any(
        _begins_near(point, ids)
        for key, ids in runs.items()
        if key.target in sides
        and (key.workload, key.parameters, key.dtype) == (row.workload, row.parameters, row.dtype)
    )


def calibrations(store: RunStore, collected: StoredRun) -> list[NoiseTable]:
    """Read the noise tables in use for the run's targets, skipping targets that have none."""
    planned = [job.planned for job in collected.jobs]
    keys = dict.fromkeys(noise_key(one.suite, one.dtype, one.target) for one in planned)
    tables = (noise_table(store, key) for key in keys)
    return [table for table in tables if table]


def noise_table(store: RunStore, key: str) -> NoiseTable | None:
    """Read a noise table; return None if it is missing or from another release."""
    text = store.read_if_there(key)
    try:
        return None if text is None else parse_table(text)
    except NoiseError as error:
        tell(f"Ignoring {key}: {error}")
        return None
