"""The report as one self-contained HTML page: no script, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from batchmark.analysis.answer import Measure
from batchmark.changes.records import Change, ChangePoint
from batchmark.core import formatting
from batchmark.report import change_words, sections, words
from batchmark.report.answer import first_screen
from batchmark.report.blocks import Page, capitalized
from batchmark.report.changes import ChangesSection, SeriesTrace
from batchmark.report.studies import sections as study_sections
from batchmark_job.result.values import CONFIDENCE_TEXT

if TYPE_CHECKING:
    from batchmark.report.model import Report

SHOWN_ROWS = 6  # of a change; the others are folded
MARGIN = 0.08  # of a chart's width and height
LEAST_RANGE = 0.02  # of a chart's values, as a share of the level: less would make noise look large

TEMPLATES = Path(__file__).with_name("templates")


@cache
def page_templates() -> Environment:
    """The environment of all pages: values are escaped, and a missing value is an error."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        Measure=Measure,
        count=formatting.count,
        confidence=CONFIDENCE_TEXT.replace(" ", "\N{NO-BREAK SPACE}"),
    )
    environment.filters.update(
        time=formatting.time,
        factor=formatting.factor,
        number=formatting.number,
        percent=formatting.percent,
        change=formatting.change,
        seconds=formatting.seconds,
        usd=formatting.usd,
        parameters=formatting.parameters,
        web_address=_web_address,
        capitalize_first=capitalized,
    )
    return environment


def render_html(report: Report, *, beside: Mapping[str, str] = MappingProxyType({})) -> str:
    """The page of a report; `beside` are the addresses of pages beside it, by their section."""
    screen = first_screen(report)
    page = page_templates().get_template("report.html.jinja")
    return page.render(
        report=report,
        screen=screen,
        calls=any(not words.is_own_job(pair) for pair in report.pairs),
        sections=study_sections(report),
        meaning=[text for story in screen.stories for text in story.meaning],
        beside=beside,
        words=words,
        changed=change_words,
        views=change_views(report.changes),
        trust=sections.trust(report),
        costs=sections.costs(report),
        price_cautions=words.price_cautions(report),
        age_days=report.prices.age_days(report.created_at),
    )


def page_html(page: Page) -> str:
    return page_templates().get_template("small.html.jinja").render(page=page)


def _web_address(address: str) -> str | None:
    """The address if it is on the web or a file beside the page, else None."""
    parts = urlsplit(address)
    beside = bool(parts.path) and not (parts.scheme or parts.netloc or "\\" in address)
    safe = parts.scheme in {"http", "https"} or beside
    return address if safe and address.isprintable() else None


class RowView(NamedTuple):
    target: str
    name: str
    point: ChangePoint
    chart: HistoryChart | None


class ChangeView(NamedTuple):
    change: Change
    title: str
    shown: list[RowView]
    folded: list[RowView]


class HistoryChart:
    """Where a trace's runs and its two levels lie, in percent of the chart's width and height.

    Values far from both levels are drawn at the edge, so that a wild run does not flatten the rest.
    """

    def __init__(self, trace: SeriesTrace, point: ChangePoint) -> None:
        metric, series = point.metric, point.series
        values = np.array([change_words.read(value, metric, series) for value in trace.values])
        levels = [
            change_words.read(level.median, metric, series) for level in (point.before, point.after)
        ]
        low, high = np.quantile(values, (0.05, 0.95))
        low, high = min(low, *levels), max(high, *levels)
        missing = max(0.0, LEAST_RANGE * max(levels) - (high - low)) / 2
        self._low, self._high = low - missing, high + missing
        self._last = max(1, values.size - 1)
        self.low, self.high = (
            change_words.value_text(max(0.0, end), metric, series)
            for end in (self._low, self._high)
        )
        self.dots = [
            (self._x(place), self._y(value), place >= trace.first)
            for place, value in enumerate(values)
        ]
        start = max(0, trace.first - point.before.runs)
        end = min(values.size, trace.first + point.after.runs) - 1
        self.before = (self._x(start), self._x(max(start, trace.first - 1)), self._y(levels[0]))
        self.after = (self._x(trace.first), self._x(end), self._y(levels[1]))
        self.span = f"{formatting.count(values.size, 'run')} since {trace.recorded_at[0]:%Y-%m-%d}"

    def _x(self, place: int) -> float:
        return _percent(place / self._last)

    def _y(self, value: float) -> float:
        share = (value - self._low) / (self._high - self._low)
        return _percent(1 - min(1.0, max(0.0, share)))


def change_views(found: ChangesSection | None) -> list[ChangeView]:
    if found is None:
        return []
    views = []
    for change in found.changes:
        rows = [
            RowView(
                change_words.target(point.series.target, change.fell_back),
                point.series.row,
                point,
                HistoryChart(trace, point) if (trace := found.trace(point)) else None,
            )
            for point in change.points
        ]
        views.append(
            ChangeView(change, change_words.title(change), rows[:SHOWN_ROWS], rows[SHOWN_ROWS:])
        )
    return views


def _percent(share: float) -> float:
    return round(100 * (MARGIN + (1 - 2 * MARGIN) * float(share)), 2)
