"""The report as one self-contained HTML page: no script, nothing loaded from elsewhere."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from batchmark import change_words, figures, report_words
from batchmark.changes_page import change_views

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from batchmark.comparison import Pair
    from batchmark.estimate import Estimate
    from batchmark.report import Report

TEMPLATES = Path(__file__).with_name("templates")
CHART_MINIMUM_DECADES = 0.8
OF_ONE_JOB = {"availability_zone"}  # no part of what a target's machines have in common


def page_templates() -> Environment:
    """What every page is made with: values are escaped, and a missing one is an error."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        time=figures.time,
        factor=figures.factor,
        number=figures.number,
        percent=figures.percent,
        change=figures.change,
        seconds=figures.seconds,
        usd=figures.usd,
        parameters=figures.parameters,
        web_address=_web_address,
    )
    return environment


def render_html(report: Report) -> str:
    page = page_templates().get_template("report.html.jinja")
    return page.render(
        report=report,
        words=report_words,
        changed=change_words,
        views=change_views(report.changes),
        staleness=report.prices.staleness(report.created_at),
        age_days=report.prices.age_days(report.created_at),
        charts=[_Chart(row.speedup for row in pair.rows) for pair in report.pairs],
        fingerprints=[_fingerprint(pair) for pair in report.pairs],
    )


class _Chart:
    """Where a factor lies on a pair's logarithmic axis, in percent of its width."""

    def __init__(self, estimates: Iterable[Estimate]) -> None:
        values = [1.0]
        for estimate in estimates:
            values.append(estimate.value)
            if estimate.interval:
                values += [max(estimate.interval.low, estimate.value / 1e3), estimate.interval.high]
        low, high = math.log10(min(values)), math.log10(max(values))
        missing = max(0.0, CHART_MINIMUM_DECADES - (high - low)) / 2
        margin = 0.04 * (high - low) + missing
        self._low, self._high = low - margin, high + margin

    def percent(self, value: float) -> float:
        share = (math.log10(max(value, 1e-12)) - self._low) / (self._high - self._low)
        return round(100 * min(1.0, max(0.0, share)), 2)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Positions and labels, one per decade or the 1-2-5 steps of a short axis."""
        steps: Sequence[int] = (1,) if self._high - self._low > 2.4 else (1, 2, 5)
        decades = range(math.floor(self._low), math.ceil(self._high) + 1)
        values = [step * 10.0**decade for decade in decades for step in steps]
        inside = [value for value in values if 4 < self.percent(value) < 96]
        return [(self.percent(value), f"{value:g}{figures.TIMES}") for value in inside]


def _web_address(address: str) -> str | None:
    """The address if it leads to the web or to a file beside the page; None for anything else."""
    parts = urlsplit(address)
    beside = bool(parts.path) and not (parts.scheme or parts.netloc or "\\" in address)
    safe = parts.scheme in {"http", "https"} or beside
    return address if safe and address.isprintable() else None


def _fingerprint(pair: Pair) -> list[tuple[str, str, str, bool]]:
    """Each property of both environments, and whether they differ."""
    sides = []
    for target in (pair.gpu, pair.cpu):
        properties = {"ran on": str(target.actual_device or "no job")}
        if target.environment:
            for name, value in target.environment.model_dump(exclude=OF_ONE_JOB).items():
                if value is not None and name.endswith("_bytes"):
                    value = figures.memory(value)  # noqa: PLW2901
                properties[name.removesuffix("_bytes")] = "none" if value is None else str(value)
        sides.append(properties)
    names = dict.fromkeys((*sides[0], *sides[1]))
    rows = [(name, sides[0].get(name, "unknown"), sides[1].get(name, "unknown")) for name in names]
    return [(name.replace("_", " "), gpu, cpu, gpu != cpu) for name, gpu, cpu in rows]
