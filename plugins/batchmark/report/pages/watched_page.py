"""Builds a page of a watched job's trends for use without Airflow."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from batchmark.changes.metric import Metric
from batchmark.report.blocks import Chart, Charts, Link, Page, Table, Text
from batchmark.report.charts import WIDTH
from batchmark.report.site import drawings, trends
from batchmark.report.site.trends import Trend


def watched_page(name: str, suite: str, found: Sequence[Trend], report: str) -> Page:
    """Build the page of trends; `report` is the address of the last run's report."""
    table = Table.of(
        "",
        "Each series of times or of a metric, with its latest figure.",
        found,
        {
            "Row": lambda trend: trend.name,
            "Target": lambda trend: trend.target,
            "Latest": lambda trend: trend.latest.text,
            "Before": lambda trend: trend.before,
            "Runs": lambda trend: trend.span,
        },
    )
    charts = [
        Chart(f"{trend.name}, {trend.target}", partial(drawings.series_svg, trend, WIDTH))
        for trend in found
    ]
    return Page(
        f"{name}, run by run",
        "All runs were on this machine, one after the other.",
        trends.summary(found, suite, Metric.TIME),
        [
            Text("The last run in full:", link=Link(report, report)),
            table._replace(wide=True),
            Charts("One figure per run, the oldest first.", charts),
        ],
    )
