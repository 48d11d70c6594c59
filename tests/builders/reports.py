"""Reports, and what reads their pages and terminal tables."""

import io
import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from unittest.mock import patch

from rich.console import Console

from batchmark.analysis.comparison import compare
from batchmark.report import charts
from batchmark.report.answer import first_screen
from batchmark.report.blocks import Chart
from batchmark.report.model import build_report
from batchmark.report.page import page_html
from batchmark.report.pages.run_page import run_page
from batchmark.report.terminal.sections import print_page
from tests.builders.runs import PRICES

NOTICE = (
    "The GPU target g4dn.xlarge ran on the CPU: no CUDA device was found. "
    "Both targets ran on one machine (AMD Ryzen 7 PRO 7840U, 2 threads), not on EC2: none of "
    "the figures here describe a g4dn.xlarge or a c5.2xlarge."
)
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
FROM_ELSEWHERE = {"script", "link", "img", "iframe", "object", "embed", "base"}
UNDRAWN = "<svg></svg>"
VOID = {"meta", "br", "line", "circle", "input"}


def report_of(run, prices=PRICES, **fields):
    return build_report(compare(run, prices), **{"created_at": NOON} | fields)


def render_html(report, beside=None, *, drawn=False):
    """A run's page; its charts, which take most of its time, are drawn for who looks at them."""
    if drawn:
        return page_html(run_page(report), beside or {})
    with patch.object(Chart, "svg", UNDRAWN), patch.object(charts, "draw", lambda *_: UNDRAWN):
        return page_html(run_page(report), beside or {})


def terminal(report, width=160):
    return printed(run_page(report), width)


def printed(page, width=160):
    console = Console(file=io.StringIO(), width=width)
    print_page(page, console)
    return console.file.getvalue()


def answers(report):
    """What the first screen says of each study."""
    stories = [story for story in first_screen(report).stories if story.anchor != "answer"]
    return [one for story in stories for one in story.answers]


def cells(table):
    """The texts of a table's rows by their headings."""
    return [dict(zip(table.headings, map(str, row), strict=True)) for row in table.rows]


class Page(HTMLParser):
    """Collects tags and texts, and fails on tags that are not closed in order."""

    def __init__(self, html):
        super().__init__()
        self.html, self.tags, self.texts, self._open = html, [], [], []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data):
        if data.strip() and not {"style", "title"} & set(self._open):
            self.texts.append(data.strip().replace("\N{NO-BREAK SPACE}%", " %"))

    def check(self):
        """It needs nothing from elsewhere, and a screen reader finds its way."""
        assert not {name for name, _ in self.tags} & FROM_ELSEWHERE
        assert not re.search(r"@import|url\(|src=", self.html)
        tables = len(self.attributes("table"))
        assert tables == len(self.attributes("caption")) == len(self.attributes("thead"))
        assert all(header["scope"] in {"col", "row"} for header in self.attributes("th"))
        assert all(svg["aria-hidden"] == "true" for svg in self.attributes("svg"))
        ids = [attributes["id"] for _, attributes in self.tags if "id" in attributes]
        assert len(ids) == len(set(ids))
        labels = {one["aria-labelledby"] for _, one in self.tags if "aria-labelledby" in one}
        assert labels <= set(ids)

    def attributes(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]
