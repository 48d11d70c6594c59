"""The routes of the pages inside Airflow. Each asks who is looking before it reads anything."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, Form, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from batchmark.analysis.published import published_table
from batchmark.analysis.side_by_side import side_by_side
from batchmark.changes.alerts.records import Alert, State
from batchmark.changes.records import Metric
from batchmark.core.errors import AlertError, CollectError
from batchmark.history.columns import IMPORTED
from batchmark.orchestration.web.access import Editor, Reader, reader
from batchmark.orchestration.web.airflow_runs import airflow_runs, failures, schedule
from batchmark.orchestration.web.library import Library, MeasuredRun
from batchmark.report.charts import embedded
from batchmark.report.pages.published_page import render_html as published_html
from batchmark.report.site import costs, drawings, trends
from batchmark.report.site.alerts import alert_views
from batchmark.report.site.compare import Comparison
from batchmark.report.site.page import Visit
from batchmark.report.site.runs import (
    UNDER_WAY,
    RunLine,
    cost_note,
    run_summary,
    why_failed,
    without_report,
)
from batchmark.report.words import noise as noise_words

BENCHMARK = "gpu_cpu_benchmark"
OTHER_DAGS = {
    "noise_calibration": "Noise calibrations",
    "environment_check": "Checks of the environment",
    "leak_guard": "Leaks",
    "diagnose_queue": "Why jobs wait",
    "detector_self_test": "The detector's self-tests",
}
PUBLISHED = published_table().run_id
PAGE_RUNS = 20
RUNS_AHEAD = 100  # of the history, read beyond those that a page skips
AGAIN_SECONDS = 15
RECENT_RUNS = 5  # that a forecast rests on
NOT_SHOWN = "There is no such object, or it is not one that is shown."
CONTENT_TYPES = {
    "html": "text/html",
    "json": "application/json",
    "csv": "text/csv",
    "md": "text/markdown",
    "png": "image/png",
}

router = APIRouter(dependencies=[Depends(reader)])


def library(request: Request) -> Library:
    """The installation's bucket, as the application has it."""
    found: Library = request.app.state.library()
    return found


def visit(request: Request, visitor: Reader) -> Visit:
    return Visit(request.scope.get("root_path", ""), visitor.may_edit, visitor.token)


Books = Annotated[Library, Depends(library)]
Here = Annotated[Visit, Depends(visit)]


@router.get("/")
def home(here: Here) -> Response:
    return RedirectResponse(f"{here.root}/runs")


@router.get("/runs")
def runs(
    here: Here, books: Books, suite: str = "", skip: Annotated[int, Query(ge=0)] = 0
) -> HTMLResponse:
    """All runs, newest first, then imported ones: Airflow's and those that it no longer knows."""
    known = {run.run_id: run for run in airflow_runs([BENCHMARK])}
    measured = {run.run_id: run for run in books.measured(skip + RUNS_AHEAD)}
    imported = {run.run_id for run in measured.values() if run.suite == IMPORTED}
    found = [
        (measured[run_id].at if run_id in measured else known[run_id].at, run_id)
        for run_id in {**known, **measured}
        if not suite or (run_id in measured and measured[run_id].suite == suite)
    ]
    found.sort(key=lambda one: (one[1] not in imported, *one), reverse=True)
    shown = [run_id for _, run_id in found[skip : skip + PAGE_RUNS]]
    summaries = books.summaries(shown)
    plans = books.dry_runs([run_id for run_id in shown if run_id not in summaries])
    lines = [
        RunLine(
            run_id,
            at,
            measured[run_id].suite if run_id in measured else "",
            known[run_id].state if run_id in known else None,
            summaries.get(run_id),
            run_id in imported,
            plans.get(run_id),
        )
        for at, run_id in found[skip : skip + PAGE_RUNS]
    ]
    speedups = [
        one
        for name in ([suite] if suite else books.history.suites())
        for one in trends.trends(books.series(name, "speedup", trends.FEWEST_RUNS), [], {})
    ]
    of_suites = [
        (run.suite, target)
        for run in measured.values()
        if run.run_id not in imported and suite in ("", run.suite)
        for target in run.targets
    ]
    more = skip + PAGE_RUNS < len(found)
    query = urlencode({"suite": suite, "skip": skip + PAGE_RUNS})
    return HTMLResponse(
        here.render(
            "runs",
            current="runs",
            title="Benchmark runs",
            summary=run_summary(
                [line for line in lines if line.run_id != PUBLISHED],
                books.alerts.alerts(),
                first=not skip,
            ),
            problems=[
                f"Left out, as it can't be read: {key}. The runbook says how to rebuild it."
                for key in books.history.unreadable
            ],
            overview=trends.overview(speedups) if not skip else [],
            unpaired=trends.unpaired(speedups, of_suites),
            lines=lines,
            cost_note=cost_note(lines),
            older=f"{here.root}/runs?{query}" if more else None,
            pages=[(f"{here.root}/dags/{dag_id}", text) for dag_id, text in OTHER_DAGS.items()],
        )
    )


@router.get("/dags/{dag_id}")
def dag(here: Here, books: Books, dag_id: str) -> HTMLResponse:
    """The runs of a DAG; the benchmark's with their answers."""
    if dag_id == BENCHMARK:
        return runs(here, books)
    found = airflow_runs([dag_id])[:PAGE_RUNS] if dag_id in OTHER_DAGS else []
    pages = [
        (
            f"{here.root}/dag-runs/{dag_id}/{quote(one.run_id)}",
            f"{one.at:%Y-%m-%d %H:%M} UTC, {one.state}: {one.run_id}",
        )
        for one in found
    ]
    text = f"The latest runs of {dag_id}, each with its page." if found else "No run yet."
    if dag_id not in OTHER_DAGS:
        text = f"The runs of {dag_id} leave no page."
    pages.append((f"{here.root}/runs", "All benchmark runs"))
    return HTMLResponse(here.message(OTHER_DAGS.get(dag_id, dag_id), text, pages, current="runs"))


@router.get("/runs/{run_id:path}")
def run(here: Here, books: Books, run_id: str) -> HTMLResponse:
    return dag_run(here, books, BENCHMARK, run_id)


@router.get("/dag-runs/{dag_id}/{run_id:path}")
def dag_run(here: Here, books: Books, dag_id: str, run_id: str) -> HTMLResponse:
    """The page that a run of any of our DAGs left; else what became of the run."""
    if page := books.page(dag_id, run_id):
        return HTMLResponse(books.relinked(here.within(page, current="runs"), here.root))
    states = {one.run_id: one.state for one in airflow_runs([dag_id])}
    state = states.get(run_id)
    page = here.message(
        f"Run {run_id} of {dag_id}",
        why_failed(failures(dag_id, run_id)) if state == "failed" else without_report(state),
        [(f"{here.root}/runs", "All runs")],
        current="runs",
        again_seconds=AGAIN_SECONDS if state in UNDER_WAY else None,
    )
    return HTMLResponse(page, status_code=200 if run_id in states else 404)


@router.get("/files/{key:path}")
def file(books: Books, key: str) -> Response:
    """A document, log or page of the bucket; nothing in it can run."""
    body = books.file(key)
    if body is None:
        raise HTTPException(404, NOT_SHOWN)
    ending = key.rpartition(".")[2]
    return Response(body, media_type=f"{CONTENT_TYPES.get(ending, 'text/plain')}; charset=utf-8")


@router.get("/results/{folder:path}/{job_id}")
def result(here: Here, books: Books, folder: str, job_id: str) -> Response:
    """The result document of a job's latest attempt."""
    keys = books.results(f"{folder}/", job_id)
    if not keys:
        raise HTTPException(404, f"Job {job_id} has left no result document.")
    return RedirectResponse(f"{here.root}/files/{quote(keys[-1])}")


def _shown_trends(books: Library, suite: str, metric: Metric, most_runs: int) -> list[trends.Trend]:
    histories = books.series(suite, metric, most_runs)
    drawn = {
        history.run_ids[place] for history in histories for place in history.usable()[-most_runs:]
    }
    conditions = books.conditions(suite, frozenset(drawn), most_runs)
    return trends.trends(
        histories,
        books.alerts.alerts(),
        conditions,
        standings=books.standings(suite, metric, most_runs),
        most_runs=most_runs,
        newest=next((run.run_id for run in _own_runs(books) if run.suite == suite), None),
    )


def _own_runs(books: Library) -> list[MeasuredRun]:
    return [run for run in books.measured() if run.suite != IMPORTED]


Runs = Annotated[int, Query(ge=2, le=trends.MOST_RUNS)]


@router.get("/trends")
def all_trends(
    here: Here,
    books: Books,
    suite: str = "",
    metric: Metric = "time",
    runs: Runs = trends.FEWEST_RUNS,
) -> HTMLResponse:
    suites = books.history.suites()
    measured = books.measured()
    suite = suite or (measured[0].suite if measured else "")
    shown = _shown_trends(books, suite, metric, runs) if suite in suites else []
    return HTMLResponse(
        here.render(
            "trends",
            current="trends",
            title="Trends",
            suites=suites,
            suite=suite,
            metric=metric,
            runs=runs,
            metrics=trends.METRICS,
            marks=trends.MARKS,
            summary=trends.summary(shown, suite, metric),
            trends=shown,
        )
    )


@router.get("/trends.csv")
def trends_csv(
    books: Books, suite: str, metric: Metric = "time", runs: Runs = trends.FEWEST_RUNS
) -> Response:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("row", "target", "run", "recorded_at", metric))
    for trend in _shown_trends(books, suite, metric, runs):
        for one in trend.runs:
            writer.writerow((trend.name, trend.target, one.run_id, one.day, one.value))
    return _download(out.getvalue(), f"trends-{suite}-{metric}.csv")


@router.get("/trends/{series_id}")
def one_trend(
    here: Here,
    books: Books,
    series_id: str,
    suite: str,
    metric: Metric = "time",
    runs: Runs = trends.FEWEST_RUNS,
) -> HTMLResponse:
    for trend in _shown_trends(books, suite, metric, runs):
        if trend.id == series_id:
            return HTMLResponse(
                here.render(
                    "series",
                    current="trends",
                    title=trend.name,
                    trend=trend,
                    svg=drawings.series_svg(trend),
                    rows=trend.rows,
                )
            )
    raise HTTPException(404, f"The history of suite {suite} has no such series.")


class Choice:
    """The two sides of a comparison, as the address has them."""

    def __init__(self, a: str = "", a_target: str = "", b: str = "", b_target: str = "") -> None:
        self.fields = {"a": a.strip(), "a_target": a_target, "b": b.strip(), "b_target": b_target}

    def compare(self, books: Library) -> Comparison:
        """Compare them.

        Raises:
            CollectError: one of them can't be found or read.
        """
        sides = [
            books.chosen(self.fields[side], self.fields[f"{side}_target"]) for side in ("a", "b")
        ]
        return Comparison(sides[0].label, sides[1].label, side_by_side(*sides))


Sides = Annotated[Choice, Depends()]


@router.get("/compare")
def compare(here: Here, books: Books, sides: Sides) -> HTMLResponse:
    measured = _own_runs(books)
    targets = sorted({target for one in measured for target in one.targets})
    found, problem = None, None
    choice = sides.fields
    if measured and not any(choice.values()):
        newest = measured[0]
        choice = Choice(newest.run_id, newest.targets[-1], newest.run_id, newest.targets[0]).fields
    if all(sides.fields.values()):
        try:
            found = sides.compare(books)
        except CollectError as error:
            problem = str(error)
    svgs = [
        embedded(drawings.comparison_chart(one)) if one.rows else ""
        for one in (found.suites if found else ())
    ]
    return HTMLResponse(
        here.render(
            "compare",
            current="compare",
            title="Compare",
            choice=choice,
            targets=targets,
            runs=[one.run_id for one in measured[:100]],
            found=found,
            problem=problem,
            hint="Choose two sides: any two runs, targets, images or days."
            if measured
            else "No run of yours yet; imported runs can't be compared.",
            charts=svgs,
            query=urlencode(sides.fields),
            noise=noise_words,
        )
    )


@router.get("/compare.{ending}")
def download(books: Books, sides: Sides, ending: str) -> Response:
    try:
        found = sides.compare(books)
    except CollectError as error:
        raise HTTPException(404, str(error)) from None
    name = f"comparison.{ending}"
    if ending == "csv":
        return _download(found.as_csv(), name)
    if ending == "md":
        return _download(found.as_markdown(), name)
    if ending == "json":
        return _download(found.as_json(), name)
    if ending == "png" and any(one.rows for one in found.suites):
        charts = [drawings.comparison_chart(one) for one in found.suites if one.rows]
        return _download(drawings.png(charts), name)
    raise HTTPException(404, "Choose csv, json, md or, where rows were compared, png.")


def _download(body: str | bytes, name: str) -> Response:
    kind = CONTENT_TYPES[name.rpartition(".")[2]]
    disposition = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}"}
    return Response(body, media_type=kind, headers=disposition)


@router.get("/alerts")
def alerts(here: Here, books: Books) -> HTMLResponse:
    summary, precision, views = alert_views(books.alerts.alerts())
    return HTMLResponse(
        here.render(
            "alerts",
            current="alerts",
            title="Alerts",
            summary=summary,
            precision=precision,
            alerts=views,
        )
    )


@router.post("/alerts/{alert_id}")
def change_alert(
    here: Here,
    books: Books,
    visitor: Editor,
    alert_id: str,
    state: Annotated[State, Form()],
    note: Annotated[str, Form(max_length=500)] = "",
) -> Response:
    """What the DAG change_alert does, in one step."""
    now = datetime.now(UTC)

    def asked_for(alert: Alert) -> Alert:
        return alert.become(
            state, at=now, by=visitor.name, run_id=f"page__{now.isoformat()}", note=note
        )

    if state == "recovered":
        raise HTTPException(422, "Only a later run can find that an alert recovered.")
    try:
        changed = books.alerts.change_alert(alert_id, asked_for)
    except AlertError as error:
        raise HTTPException(409, str(error)) from None
    return RedirectResponse(f"{here.root}/alerts#{changed.id}", status_code=303)


@router.get("/published")
def example(here: Here) -> HTMLResponse:
    """What a page looks like before a GPU was rented: a table that others published."""
    return HTMLResponse(here.within(published_html(), current="published"))


@router.get("/costs")
def spent(here: Here, books: Books) -> HTMLResponse:
    months = books.months()
    settled = sorted(
        (run.planned_at, float(run.exact_usd))
        for month in months
        for run in month.spending.runs.values()
        if run.finished and run.is_known
    )
    now = datetime.now(UTC)
    coming = schedule(BENCHMARK, now)
    recent = [usd for _, usd in settled[-RECENT_RUNS:]]
    forecast = costs.Forecast(BENCHMARK, coming.runs, coming.paused, recent)
    return HTMLResponse(
        here.render(
            "costs",
            current="costs",
            title="Costs",
            summary=costs.summary(months),
            forecast=forecast.text,
            months=months,
        )
    )
