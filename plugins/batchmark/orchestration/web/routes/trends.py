"""Pages that show the trends of all series or compare any two sides."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, HTTPException, Query
from fastapi.responses import HTMLResponse, Response

from batchmark.analysis.side_by_side import side_by_side
from batchmark.changes.metric import Metric
from batchmark.core import formatting
from batchmark.core.errors import CollectError
from batchmark.core.names import run_name, target_order
from batchmark.core.output import csv_text
from batchmark.core.suites import suite_name
from batchmark.history.columns import IMPORTED
from batchmark.orchestration.web.access import Reader, Visitor, check_may_read
from batchmark.orchestration.web.library import Library
from batchmark.orchestration.web.routes.parts import Books, Here, download, own_runs
from batchmark.orchestration.web.routes.runs import owner
from batchmark.report.changes.words import ROWS
from batchmark.report.charts import embedded
from batchmark.report.site import drawings, trends
from batchmark.report.site.compare import Comparison
from batchmark.report.words import noise as noise_words

router = APIRouter(default_response_class=HTMLResponse)


def _shown_trends(books: Library, suite: str, metric: Metric, most_runs: int) -> list[trends.Trend]:
    histories = books.series(suite, metric, most_runs)
    drawn = {
        history.run_ids[place] for history in histories for place in history.usable()[-most_runs:]
    }
    conditions = books.conditions(suite, frozenset(drawn), most_runs)
    alerts = books.alerts.alerts()
    runs = [run for run in books.measured(most_runs) if run.suite == suite]
    return trends.trends(
        histories,
        alerts,
        conditions,
        standings=books.standings(suite, metric, most_runs, alerts),
        most_runs=most_runs,
        newest=runs[0].run_id if runs and suite != IMPORTED else None,
    )


Runs = Annotated[int, Query(ge=2, le=trends.MOST_RUNS)]


def known_suite(books: Books, suite: str) -> str:
    """Return the suite if the history contains it.

    Raises:
        HTTPException: 404 if it doesn't.
    """
    if suite not in (known := books.history.suites()):
        raise HTTPException(
            404, f"The history has no suite {suite}; it has {', '.join(known) or 'none'}."
        )
    return suite


Suite = Annotated[str, Depends(known_suite)]


@router.get("/trends")
def all_trends(
    here: Here,
    books: Books,
    suite: str = "",
    metric: Metric = Metric.TIME,
    runs: Runs = trends.FEWEST_RUNS,
) -> str:
    suites = books.history.suites()
    measured = books.measured()
    suite = suite or (measured[0].suite if measured else "")
    shown = _shown_trends(books, suite, metric, runs) if suite in suites else []
    return here.render(
        "trends",
        current="trends",
        title="Trends",
        suites=suites,
        suite=suite,
        metric=metric,
        runs=runs,
        metrics=trends.METRICS,
        marks=trends.MARKS,
        rows_and_series=ROWS,
        summary=trends.summary(shown, suite, metric),
        trends=shown,
    )


@router.get("/trends.csv")
def trends_csv(
    books: Books, suite: Suite, metric: Metric = Metric.TIME, runs: Runs = trends.FEWEST_RUNS
) -> Response:
    rows = (
        (trend.name, trend.target, one.run_id, one.day, one.value, one.version)
        for trend in _shown_trends(books, suite, metric, runs)
        for one in trend.runs
    )
    heading = ("row", "target", "run", "began_at", metric, "version")
    return download(csv_text((heading, *rows)), f"trends-{suite}-{metric}.csv")


@router.get("/trends/{series_id}")
def one_trend(
    here: Here,
    books: Books,
    series_id: str,
    suite: Suite,
    metric: Metric = Metric.TIME,
    runs: Runs = trends.FEWEST_RUNS,
) -> str:
    for trend in _shown_trends(books, suite, metric, runs):
        if trend.id == series_id:
            return here.render(
                "series",
                current="trends",
                title=trend.name,
                trend=trend,
                svg=drawings.series_svg(trend) if len(trend.runs) > 1 else "",
                rows=trend.rows,
            )
    raise HTTPException(404, f"The history of suite {suite} has no such series.")


class Choice:
    """The two sides of a comparison, as specified in the page's address."""

    def __init__(self, a: str = "", a_target: str = "", b: str = "", b_target: str = "") -> None:
        self.fields = {"a": a.strip(), "a_target": a_target, "b": b.strip(), "b_target": b_target}

    def compare(self, books: Library, visitor: Visitor) -> Comparison:
        """Compare the two sides.

        Raises:
            CollectError: a side can't be found or read.
            HTTPException: 403 if the visitor may not see the runs of a side's DAG.
        """
        sides = [
            books.chosen(self.fields[side], self.fields[f"{side}_target"]) for side in ("a", "b")
        ]
        for side in sides:
            check_may_read(visitor, owner(books, side.run.run_id))
        first, second = sides
        follows = first.follows(second)
        alike = first.name == second.name
        names = [one.label if alike else one.name for one in sides]
        return Comparison(names[0], names[1], side_by_side(*sides), follows)


Sides = Annotated[Choice, Depends()]


@router.get("/compare")
def compare(here: Here, books: Books, visitor: Reader, sides: Sides) -> str:
    measured = own_runs(books)
    targets = sorted({target for one in measured for target in one.targets}, key=target_order)
    found, problem = None, None
    choice = sides.fields
    if measured and not any(choice.values()):
        newest = measured[0]
        choice = Choice(newest.run_id, newest.targets[-1], newest.run_id, newest.targets[0]).fields
    if all(sides.fields.values()):
        try:
            found = sides.compare(books, visitor)
        except CollectError as error:
            problem = str(error)
    svgs = [
        embedded(drawings.comparison_chart(one)) if one.rows else ""
        for one in (found.suites if found else ())
    ]
    return here.render(
        "compare",
        current="compare",
        title="Compare",
        choice=choice,
        targets=targets,
        runs=[
            (one.run_id, run_name(one.run_id, formatting.moment(one.at), suite_name(one.suite)))
            for one in measured[:100]
        ],
        found=found,
        problem=problem,
        hint="Choose two sides: any two runs, targets, commits, images or days."
        if measured
        else "You have no runs yet; imported runs can't be compared.",
        charts=svgs,
        query=urlencode(sides.fields),
        noise=noise_words,
    )


@router.get("/compare.{ending}")
def compared(books: Books, visitor: Reader, sides: Sides, ending: str) -> Response:
    try:
        found = sides.compare(books, visitor)
    except CollectError as error:
        raise HTTPException(404, str(error)) from None
    name = f"comparison.{ending}"
    texts = {"csv": found.as_csv, "md": found.as_markdown, "json": found.as_json}
    if as_text := texts.get(ending):
        return download(as_text(), name)
    if ending == "png" and any(one.rows for one in found.suites):
        charts = [drawings.comparison_chart(one) for one in found.suites if one.rows]
        return download(drawings.png(charts), name)
    raise HTTPException(404, "Choose csv, json, md or, where rows were compared, png.")
