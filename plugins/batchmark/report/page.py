"""Renders pages as self-contained HTML, without scripts or external files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from batchmark.analysis.pairs.answer import Measure
from batchmark.core import formatting
from batchmark.report import words
from batchmark.report.blocks import Page, capitalized
from batchmark.report.size_charts import SizeChart
from batchmark_job.result.confidence import CONFIDENCE_TEXT

PERCENT = re.compile(r"(?<=\d) %")
TEMPLATES = Path(__file__).with_name("templates")


@cache
def page_templates() -> Environment:
    """Return the Jinja environment for all pages; it escapes values and rejects missing ones."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_unbroken,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        Measure=Measure,
        count=formatting.count,
        draw=_draw,
        words=words,
        confidence=CONFIDENCE_TEXT,
    )
    environment.filters.update(
        time=formatting.time,
        factor=formatting.factor,
        number=formatting.number,
        seconds=formatting.seconds,
        usd=formatting.usd,
        parameters=formatting.parameters,
        web_address=_web_address,
        capitalize_first=capitalized,
    )
    return environment


def page_html(page: Page, beside: Mapping[str, str] = MappingProxyType({})) -> str:
    """Render one page; `beside` maps section ids to the addresses of their extra pages."""
    return page_templates().get_template("page.html.jinja").render(page=page, beside=beside)


def _unbroken(value: object) -> object:
    """Keep numbers and their % on one line; browsers copy such a space as a plain one."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return PERCENT.sub("\N{NO-BREAK SPACE}%", value)
    return value


def _draw(chart: SizeChart, measure: Measure = Measure.TIME) -> str:
    """Draw a chart; what draws is imported only then, as DAG files import this module."""
    from batchmark.report.charts import draw

    return draw(chart, measure)


def _web_address(address: str) -> str | None:
    """Return the address if it's on the web or relative to the page, else None."""
    parts = urlsplit(address)
    beside = bool(parts.path) and not (parts.scheme or parts.netloc or "\\" in address)
    safe = parts.scheme in {"http", "https"} or beside
    return address if safe and address.isprintable() else None
