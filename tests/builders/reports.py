"""Builders of reports, for the tests of their JSON, page and terminal table."""

import io
from datetime import UTC, datetime

from rich.console import Console

from batchmark.analysis.comparison import compare
from batchmark.report.answer import first_screen
from batchmark.report.model import build_report
from batchmark.report.page import page_html
from batchmark.report.pages.run_page import run_page
from batchmark.report.terminal.sections import print_page
from tests.builders.runs import PRICES

NOTICE = (
    "The GPU target g4dn.xlarge ran on the CPU: no CUDA device was found. "
    "Both targets ran on one machine (AMD Ryzen 7 PRO 7840U, 2 threads), not on EC2: no figure "
    "here is a g4dn.xlarge's or a c5.2xlarge's."
)
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def report_of(run, prices=PRICES, **fields):
    return build_report(compare(run, prices), **{"created_at": NOON} | fields)


def render_html(report, beside=None):
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
