"""Gives the pages access to the result bucket: reports, documents, history, alerts, bookings."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from html import escape
from threading import Lock
from typing import Any, TypeVar, cast
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc
from cachetools import LRUCache
from pydantic import BaseModel

from batchmark.analysis.published import published_table
from batchmark.analysis.side_by_side import Chosen
from batchmark.aws.result_bucket import COLLECTED, PLAN, SUMMARY, RunStore
from batchmark.changes.alerts.records import LISTED, Alert
from batchmark.changes.alerts.store import AlertStore
from batchmark.changes.conditions import COLUMNS as CONDITION_COLUMNS
from batchmark.changes.conditions import RunConditions, run_conditions
from batchmark.changes.detection import DetectorSettings
from batchmark.changes.metric import Metric
from batchmark.changes.records import Series, SeriesKey
from batchmark.changes.standing import Standing, standings
from batchmark.core.config import Config
from batchmark.core.errors import AlertError, CollectError
from batchmark.core.kinds import KINDS
from batchmark.core.names import document_prefix, slug
from batchmark.core.record import Record
from batchmark.core.run import RunPlan
from batchmark.core.version import matches
from batchmark.history.columns import IMPORTED
from batchmark.history.series import VERSION, HistoryRun, began_at, runs_of, series_histories
from batchmark.history.store import HistoryStore, run_prices
from batchmark.history.view import HistoryView
from batchmark.orchestration.run_history import calibrations
from batchmark.orchestration.settings import load_detector_settings
from batchmark.report.answer import RunSummary
from batchmark.report.page import page_html
from batchmark.report.pages.published_page import published_page, published_summary
from batchmark.report.site.costs import Month
from batchmark.report.site.trends import FEWEST_RUNS, median_speedups
from batchmark.runs.collected_runs import readable_run
from batchmark.runs.spending import COSTS_FOLDER, MonthSpending, month_spending

# Where pages and documents lie; nothing else of the bucket is shown.
SHOWN_FOLDERS = ("raw/", "runs/", "guard/", "diagnoses/", "self_test/", "noise/", "prices/")
RUN_FOLDERS = ("raw", "runs")  # which have a folder for each run
MOST_BYTES = 32 * 2**20  # of an object that is shown
SUMMARIES_AT_A_TIME = 8
MOST_MONTHS = 6
RECENT_RUNS = 100
NAMING = ["run_id", *VERSION]
MOST_MADE = 64  # tables of series and the like that are kept
IMAGE = re.compile(r"sha256:[0-9a-f]{6,64}")
COMMIT = re.compile(r"[0-9a-f]{7,64}")
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

Made = TypeVar("Made")
Stored = TypeVar("Stored", bound=Record)


class _Planned(BaseModel):
    """The part of a plan that names its DAG."""

    dag_id: str | None = None


class Library:
    """One installation's result bucket; thread-safe and kept for as long as the process lives."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.store = RunStore.of(config, "")
        self.alerts = AlertStore(self.store)
        self.history = HistoryView(HistoryStore.of(config))
        self._made: LRUCache[Hashable, tuple[pa.Table, Any]] = LRUCache(MOST_MADE)
        self._lock = Lock()

    def page(self, dag_id: str, run_id: str) -> str | None:
        """Return a DAG run's stored page, or None if it has none.

        For the run imported from the published table, this is the example page.
        """
        if run_id == published_table().run_id:
            return page_html(published_page())
        run, kind = self.store.of_run(run_id), KINDS.get(dag_id)
        keys = [f"{run.prefix}{name}.html" for name in kind.pages] if kind else []
        if kind and kind.folder:
            ending = f"/{slug(run_id)}.html"
            keys = [key for key in run.keys(f"{kind.folder}/") if key.endswith(ending)][-1:]
        found = (run.read_if_there(key, most_bytes=MOST_BYTES) for key in keys)
        text = next((text for text in found if text is not None), None)
        return None if text is None else text.decode(errors="replace")

    def relinked(self, html: str, root: str) -> str:
        """Return a stored page with its bucket links rewritten to `root`/files.

        The stored links lead to AWS's console or expire after a week.
        """
        into_bucket = (
            re.escape(escape(self.store.bucket_url)) + r'([^"?]+)(?:\?[^"]*)?',
            r"https://[a-z0-9-]+\.console\.aws\.amazon\.com/s3/object/"
            + re.escape(self.config.bucket)
            + r'\?[^"]*?prefix=([^"&]+)',
        )
        for pattern in into_bucket:
            html = re.sub(
                f'href="{pattern}"',
                lambda found: f'href="{root}/files/{quote(unquote(found[1]))}"',
                html,
            )
        return html

    def file(self, key: str) -> bytes | None:
        """Return an object's content, or None if the object is missing or may not be shown."""
        if not key.startswith(SHOWN_FOLDERS):
            return None
        return self.store.read_if_there(key, most_bytes=MOST_BYTES)

    def owner(self, key: str) -> str | None:
        """Return the DAG whose run owns an object, or None if unknown."""
        folder, *rest = key.split("/")
        if folder not in RUN_FOLDERS:
            return next((kind.dag_id for kind in KINDS.values() if kind.folder == folder), None)
        plan = self.store.record(_Planned, f"runs/{rest[0]}/{PLAN}") if rest else None
        return plan.dag_id if plan else None

    def owner_of_run(self, run_id: str) -> str | None:
        """Return the DAG that a run's folder belongs to; see `owner`."""
        return self.owner(self.store.of_run(run_id).prefix)

    def results(self, prefix: str, job_id: str) -> list[str]:
        """Return the keys of a job's result documents, with the latest attempt's last."""
        if not prefix.startswith(SHOWN_FOLDERS):
            return []
        names = prefix + document_prefix(job_id)
        found = [key for key in self.store.keys(prefix) if key.startswith(names)]
        return sorted(found, key=lambda key: (len(key), key))

    def summaries(self, run_ids: Sequence[str]) -> dict[str, RunSummary]:
        """Return summaries by run ID, omitting runs without a readable summary."""
        found = self._stored(run_ids, SUMMARY, RunSummary)
        if (run_id := published_table().run_id) in run_ids:
            found[run_id] = published_summary()
        return found

    def plans(self, run_ids: Sequence[str]) -> dict[str, RunPlan]:
        """Return plans by run ID, omitting runs without a readable plan."""
        return self._stored(run_ids, PLAN, RunPlan)

    def _stored(self, run_ids: Sequence[str], name: str, kind: type[Stored]) -> dict[str, Stored]:
        """Read the same object from each run's folder, omitting missing or unreadable ones."""

        def read(run_id: str) -> Stored | None:
            run = self.store.of_run(run_id)
            return run.record(kind, run.prefix + name)

        with ThreadPoolExecutor(SUMMARIES_AT_A_TIME) as pool:
            found = zip(run_ids, pool.map(read, run_ids), strict=True)
            return {run_id: record for run_id, record in found if record}

    def measured(self, least_runs: int = RECENT_RUNS) -> list[HistoryRun]:
        """Return the history's latest runs, newest first, with at least `least_runs` per suite.

        Imported runs come last.
        """
        found = [
            run
            for suite in self.history.suites()
            for run in self._made_of(suite, "runs", runs_of, least_runs)
        ]
        return sorted(found, key=lambda run: (run.suite != IMPORTED, run.at), reverse=True)

    def series(self, suite: str, metric: Metric, least_runs: int) -> list[Series]:
        return self._made_of(suite, metric, lambda rows: series_histories(rows, metric), least_runs)

    def standings(
        self, suite: str, metric: Metric, least_runs: int, alerts: Sequence[Alert] = ()
    ) -> dict[SeriesKey, Standing]:
        """Judge each series' newest run against its level, allowing for changes in open alerts."""
        series = self.series(suite, metric, least_runs)
        told = tuple(
            point
            for alert in alerts
            if alert.state in LISTED
            for point in alert.change.points
            if point.metric == metric and point.series.suite == suite
        )
        settings = _detector_settings()
        name = ("standings", metric, settings.false_alerts_a_month, told)
        return self._made_of(suite, name, lambda _: standings(series, settings, told), least_runs)

    def median_speedups(self, suite: str) -> tuple[list[Series], dict[SeriesKey, Standing]]:
        """Return each pair's median speedup across all rows, and the standing of its latest run."""
        settings = _detector_settings()

        def make(rows: pa.Table) -> tuple[list[Series], dict[SeriesKey, Standing]]:
            found = median_speedups(series_histories(rows, Metric.SPEEDUP))
            return found, standings(found, settings)

        name = ("median speedups", settings.false_alerts_a_month)
        return self._made_of(suite, name, make, FEWEST_RUNS)

    def conditions(
        self, suite: str, run_ids: frozenset[str], least_runs: int
    ) -> dict[tuple[str, str], RunConditions]:
        """Return the conditions that a suite's jobs ran under in these runs, by run and target."""
        make = partial(_conditions, run_ids)
        return self._made_of(suite, ("conditions", run_ids), make, least_runs)

    def _made_of(
        self, suite: str, name: Hashable, make: Callable[[pa.Table], Made], least_runs: int
    ) -> Made:
        """Return a value computed from a suite's latest rows, cached until they change."""
        rows = self.history.rows(suite, least_runs=least_runs)
        if not rows.num_rows:  # of a suite that is none, for which nothing else is to go
            return make(rows)
        with self._lock:
            held = self._made.get((suite, name))
        if held is None or held[0] is not rows:
            held = rows, make(rows)
            with self._lock:
                self._made[suite, name] = held
        return cast("Made", held[1])

    def newest(self, target: str, wanted: Callable[[dict[str, Any]], bool]) -> str | None:
        """Return the newest run with matching rows for a target, or None if there is none."""
        found = []
        for suite in self.history.suites():
            for _, rows in self.history.months(suite):
                of_target = rows.filter(pc.equal(rows["target"].cast(pa.string()), target))
                known = of_target.select(NAMING).append_column("began_at", began_at(of_target))
                runs = [
                    (row["began_at"], row["run_id"])
                    for row in known.to_pylist()
                    if row["began_at"] and wanted(row)
                ]
                if runs:
                    found.append(max(runs))
                    break
        return max(found)[1] if found else None

    def chosen(self, text: str, target: str) -> Chosen:
        """Find a target's run by id, or its newest run for a commit or image, or up to a given day.

        Raises:
            CollectError: there is no such run, or it was imported.
        """
        run_id: str | None = text
        why = f"with the image {text}: choose another image or target"
        if IMAGE.fullmatch(text):
            run_id = self.newest(target, lambda row: str(row["image_digest"]).startswith(text))
        elif DAY.fullmatch(text):
            try:
                day = date.fromisoformat(text)
            except ValueError:
                raise CollectError(
                    f"{text} is not a valid date: enter one such as 2026-11-20."
                ) from None
            why = f"on or before {text}: choose a later day or another target"
            run_id = self.newest(target, lambda row: row["began_at"].date() <= day)
        elif COMMIT.fullmatch(text):  # unless a run is called so
            of_commit = self.newest(
                target, lambda row: matches("commit", text, row["commit"] or "")
            )
            run_id = of_commit or text
        if run_id is None:
            raise CollectError(f"There is no run of {target} {why}.")
        if any(run_id == one.run_id and one.suite == IMPORTED for one in self.measured()):
            raise CollectError(
                f"{run_id} was imported, so it has no samples to compare; its figures are shown "
                "under Trends"
            )
        store = self.store.of_run(run_id)
        if not store.keys(store.prefix + COLLECTED):
            raise CollectError(
                f"There is no run {run_id!r}: enter one that the field suggests, a commit "
                "(3f2a91c), an image (sha256:…) or a date (2026-11-20)."
            )
        run = readable_run(store, store.prefix + COLLECTED)
        prices = run_prices(store, self.config.region, run)
        return Chosen(run, target, prices, calibrations(store, run))

    def months(self) -> list[Month]:
        """Return the latest months with bookings, newest first."""
        keys = self.store.keys(COSTS_FOLDER)
        names = sorted({key.split("/")[1] for key in keys if key.count("/") == 2}, reverse=True)
        spending = [
            month_spending(self.store, f"{COSTS_FOLDER}{name}/") for name in names[:MOST_MONTHS]
        ]
        if not self.store.is_aws():
            spending = [month.free() for month in spending]
        return [Month(one, self._by_target(one)) for one in spending]

    def _by_target(self, month: MonthSpending) -> dict[str, float | None]:
        """Total the month's bookings by target; a total is None if any amount in it is unknown."""
        booked = {job: usd for run in month.runs.values() for job, usd in run.job_usd.items()}
        targets: dict[str, str] = {}
        for suite in self.history.suites() if booked else ():
            for name, rows in self.history.months(suite):
                if name < month.month:
                    break
                targets |= _targets_of_jobs(rows)
        found: dict[str, float | None] = {}
        for job, usd in booked.items():
            before = found.get(target := targets.get(job, "unknown target"), 0.0)
            found[target] = None if before is None or usd is None else before + usd
        return found


def _detector_settings() -> DetectorSettings:
    try:
        return load_detector_settings()
    except AlertError:  # which the next run says
        return DetectorSettings()


def _conditions(run_ids: frozenset[str], rows: pa.Table) -> dict[tuple[str, str], RunConditions]:
    wanted = rows.filter(
        pc.is_in(rows["run_id"].cast(pa.string()), pa.array(sorted(run_ids), pa.string()))
    )
    return run_conditions(wanted.select(list(CONDITION_COLUMNS)).to_pylist())


def _targets_of_jobs(rows: pa.Table) -> dict[str, str]:
    pairs = rows.select(["job_id", "target"])
    flat = pa.table({name: pairs[name].cast(pa.string()) for name in pairs.column_names})
    found = flat.group_by(["job_id", "target"]).aggregate([]).to_pylist()
    return {row["job_id"]: row["target"] for row in found if row["job_id"]}
