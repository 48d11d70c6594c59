"""Pages for the list of runs, and for each run and its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, HTTPException, Query
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from batchmark.analysis.published import published_table
from batchmark.core import formatting
from batchmark.core.kinds import COSTING, KINDS, title
from batchmark.core.names import run_name
from batchmark.core.version import NAMES, matches
from batchmark.history.columns import IMPORTED
from batchmark.orchestration.web import airflow_runs
from batchmark.orchestration.web.access import READ_DAG, Reader, check_may_read
from batchmark.orchestration.web.library import Library
from batchmark.orchestration.web.routes.parts import CONTENT_TYPES, SANDBOXED, Books, Here
from batchmark.report.page import page_html
from batchmark.report.pages.published_page import published_page
from batchmark.report.site import trends
from batchmark.report.site.runs import (
    ELSEWHERE,
    NOT_HERE,
    STATES,
    UNDER_WAY,
    RunLine,
    cost_note,
    open_alerts,
    run_summary,
    version_choices,
    why_failed,
    without_report,
)

PUBLISHED = published_table().run_id
PAGE_RUNS = 20  # judgment: one screen or two; sample/installation.py counts on it
RUNS_AHEAD = 100  # of the history, read beyond those that a page skips
AGAIN_SECONDS = 15  # judgment: how stale the page of a run under way may be
NOT_SHOWN = "This object does not exist, or you may not view it."

router = APIRouter(default_response_class=HTMLResponse)


@router.get("/")
def home(here: Here) -> Response:
    return RedirectResponse(f"{here.root}/runs")


class RunFilter:
    """Filters runs by query parameters; an empty parameter matches every run."""

    def __init__(
        self,
        dag: str = "",
        suite: str = "",
        state: str = "",
        commit: str = "",
        branch: str = "",
        label: str = "",
        image_digest: str = "",
    ) -> None:
        self.version = {
            "commit": commit,
            "branch": branch,
            "label": label,
            "image_digest": image_digest,
        }
        self.fields = {"dag": dag, "suite": suite, "state": state, **self.version}

    def matches(self, line: RunLine) -> bool:
        known = {
            "dag": [line.dag_id],
            "suite": [line.suite],
            "state": [line.state or ELSEWHERE],
            **line.versions,
        }
        return all(
            not wanted or any(matches(name, wanted, value) for value in known.get(name, ()))
            for name, wanted in self.fields.items()
        )

    @property
    def needs_plans(self) -> bool:
        """Whether the filter uses a field that might be known only from plans."""
        return bool(self.fields["dag"] or any(self.version.values()))


@router.get("/runs")
def runs(
    here: Here,
    books: Books,
    visitor: Reader,
    wanted: Annotated[RunFilter, Depends()],
    skip: Annotated[int, Query(ge=0)] = 0,
) -> str:
    """List a page of runs, newest first, then imported ones, even if Airflow has forgotten them."""
    known = {run.run_id: run for run in airflow_runs.runs(COSTING)}
    measured = {run.run_id: run for run in books.measured(skip + RUNS_AHEAD)}
    found = [
        RunLine(
            run_id,
            measured[run_id].at if run_id in measured else known[run_id].at,
            known[run_id].dag_id if run_id in known else "",
            measured[run_id].suite if run_id in measured else "",
            known[run_id].state if run_id in known else None,
            imported=run_id in measured and measured[run_id].suite == IMPORTED,
            measured=measured[run_id].versions if run_id in measured else {},
        )
        for run_id in {**known, **measured}
    ]
    if wanted.needs_plans:
        found = _planned(books, found)
    readable = {"", *filter(visitor.may_read, COSTING)}
    every = [line for line in found if line.dag_id in readable]
    every.sort(key=lambda line: (not line.imported, line.at, line.run_id), reverse=True)
    found = [line for line in every if wanted.matches(line)]
    shown = found[skip : skip + PAGE_RUNS]
    summaries = books.summaries([line.run_id for line in shown])
    lines = _planned(books, [replace(line, summary=summaries.get(line.run_id)) for line in shown])
    lines = [line for line in lines if line.dag_id in readable]  # a plan may have named it
    suite = wanted.fields["suite"]
    newest = {run.suite: run.run_id for run in reversed(measured.values()) if run.suite != IMPORTED}
    speedups: list[trends.Trend] = []
    for name in [suite] if suite else books.history.suites():
        pairs, standings = books.median_speedups(name)
        speedups += trends.trends(pairs, [], {}, standings=standings, newest=newest.get(name))
    of_suites = [
        (run.suite, target)
        for run in measured.values()
        if run.suite != IMPORTED and suite in ("", run.suite)
        for target in run.targets
    ]
    query = urlencode({**wanted.fields, "skip": skip + PAGE_RUNS})
    return here.render(
        "runs",
        current="runs",
        title="Benchmark runs",
        summary=run_summary(
            [line for line in lines if line.run_id != PUBLISHED],
            first=not skip and not any(wanted.fields.values()),
        ),
        open_alerts=open_alerts(books.alerts.alerts()),
        problems=[
            f"Omitted, because it can't be read: {key}. The runbook explains how to rebuild it."
            for key in books.history.unreadable
        ],
        choices=[
            ("DAG", "dag", [(dag_id, title(dag_id)) for dag_id in COSTING]),
            ("Suite", "suite", [(name, name) for name in books.history.suites()]),
            ("State", "state", [*STATES.items(), (ELSEWHERE, NOT_HERE)]),
            *(
                (NAMES[name].capitalize(), name, choices)
                for name, chosen in wanted.version.items()
                if (choices := version_choices(every, name, chosen))
            ),
        ],
        wanted=wanted.fields,
        overview=speedups if not skip else [],
        unpaired=trends.unpaired(speedups, of_suites),
        lines=lines,
        cost_note=cost_note(lines),
        older=f"{here.root}/runs?{query}" if skip + PAGE_RUNS < len(found) else None,
        pages=[
            (f"{here.root}/dags/{kind.dag_id}", kind.title)
            for kind in KINDS.values()
            if kind.has_pages and not kind.costs
        ],
    )


def _planned(books: Library, lines: Sequence[RunLine]) -> list[RunLine]:
    """Add plans for runs that have no report or that Airflow has forgotten."""
    plans = books.plans([line.run_id for line in lines if not line.dag_id or not line.summary])
    return [line.with_plan(plans.get(line.run_id)) for line in lines]


@router.get("/dags/{dag_id}")
def dag(here: Here, books: Books, visitor: Reader, dag_id: str) -> str:
    """List a DAG's runs, with their results if the DAG is a benchmark."""
    check_may_read(visitor, dag_id)
    kind = KINDS.get(dag_id)
    if kind and kind.costs:
        return runs(here, books, visitor, RunFilter(dag_id))
    found = airflow_runs.runs([dag_id])[:PAGE_RUNS] if kind and kind.has_pages else []
    pages = [
        (
            f"{here.root}/dag-runs/{dag_id}/{quote(one.run_id)}",
            f"{run_name(one.run_id, formatting.moment(one.at))}, {one.state} ({one.run_id})",
        )
        for one in found
    ]
    text = f"The latest runs of {dag_id}, each with its page." if found else "No runs yet."
    if not kind or not kind.has_pages:
        text = f"{dag_id} has no report page."
    pages.append((f"{here.root}/runs", "All benchmark runs"))
    return here.message(title(dag_id), text, pages, current="runs")


@router.get("/runs/{run_id:path}")
def run(here: Here, books: Books, visitor: Reader, run_id: str) -> HTMLResponse:
    """Show a run's page at an address that doesn't name its DAG."""
    dag_id = owner(books, run_id)
    check_may_read(visitor, dag_id)
    return _page(here, books, dag_id, run_id)


@router.get("/dag-runs/{dag_id}/{run_id:path}")
def dag_run(here: Here, books: Books, visitor: Reader, dag_id: str, run_id: str) -> HTMLResponse:
    """Show a DAG run's page, or just its state if it has no page."""
    check_may_read(visitor, dag_id)
    if (kind := KINDS.get(dag_id)) and kind.pages:
        check_may_read(visitor, owner(books, run_id, dag_id))
    return _page(here, books, dag_id, run_id)


def _page(here: Here, books: Library, dag_id: str, run_id: str) -> HTMLResponse:
    if page := books.page(dag_id, run_id):
        return HTMLResponse(books.relinked(here.within(page, current="runs"), here.root))
    states = {one.run_id: one.state for one in airflow_runs.runs([dag_id], run_id)}
    state = states.get(run_id)
    page = here.message(
        f"Run {run_id} of {dag_id}",
        why_failed(airflow_runs.failures(dag_id, run_id))
        if state == "failed"
        else without_report(state),
        [(f"{here.root}/runs", "All runs")],
        current="runs",
        again_seconds=AGAIN_SECONDS if state in UNDER_WAY else None,
    )
    return HTMLResponse(page, status_code=200 if run_id in states else 404)


def owner(books: Library, run_id: str, dag_id: str = READ_DAG) -> str:
    """Return the DAG whose run owns this id's folder; runs of several DAGs can share an id.

    The plan names the DAG or, failing that, Airflow does; otherwise, `dag_id` is used.
    """
    if planned := books.owner_of_run(run_id):
        return planned
    known = [one.dag_id for one in airflow_runs.runs(KINDS, run_id)]
    return known[0] if known and dag_id not in known else dag_id


@router.get("/files/{key:path}")
def file(books: Books, visitor: Reader, key: str) -> Response:
    """Serve a document, log or page from the bucket, with headers that sandbox it."""
    check_may_read(visitor, books.owner(key) or READ_DAG)
    body = books.file(key)
    if body is None:
        raise HTTPException(404, NOT_SHOWN)
    ending = key.rpartition(".")[2]
    kind = f"{CONTENT_TYPES.get(ending, 'text/plain')}; charset=utf-8"
    return Response(body, media_type=kind, headers=SANDBOXED)


@router.get("/results/{folder:path}/{job_id}")
def result(here: Here, books: Books, visitor: Reader, folder: str, job_id: str) -> Response:
    """Redirect to the result document from a job's latest attempt."""
    check_may_read(visitor, books.owner(folder) or READ_DAG)
    keys = books.results(f"{folder}/", job_id)
    if not keys:
        raise HTTPException(404, f"Job {job_id} left no result document.")
    return RedirectResponse(f"{here.root}/files/{quote(keys[-1])}")


@router.get("/published")
def example(here: Here) -> str:
    """Show an example page, made without a GPU from a table published by others."""
    return here.within(page_html(published_page()), current="published")


def dag_ids(books: Library, run_ids: Sequence[str]) -> dict[str, str]:
    """Look up each run's DAG in Airflow or, if Airflow has forgotten the run, in its plan."""
    known = {run.run_id: run.dag_id for run in airflow_runs.runs(COSTING)}
    plans = books.plans([run_id for run_id in run_ids if run_id not in known])
    return {run_id: plan.dag_id for run_id, plan in plans.items() if plan.dag_id} | known
