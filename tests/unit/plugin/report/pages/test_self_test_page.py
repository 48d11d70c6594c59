"""The self-test's page and table."""

import re
from datetime import UTC, datetime

import pytest

from batchmark.changes.self_test.records import Alarms, Part, SelfTest, Steps, SuiteTest
from batchmark.changes.self_test.self_test import EARLY, WAITED, try_suite
from batchmark.changes.shares import Rate
from batchmark.report.blocks import Text
from batchmark.report.page import page_html
from batchmark.report.pages.self_test_page import self_test_page
from tests.builders.reports import Page, printed
from tests.builders.self_test import Threshold, level_histories

NONE = Alarms(alarms=0, withdrawn=0, series_runs=0, low=0.0, high=None)


def report_of(*suites, **fields):
    values = {
        "created_at": datetime(2026, 12, 6, 5, tzinfo=UTC),
        "months": 6,
        "seed": 7,
        "detector": "DetectorSettings(<b>)",
        "waited": WAITED,
        "early": EARLY,
        "suites": suites,
    }
    return SelfTest(**values | fields)


def build_steps(delays, cases, size=0.1):
    return Steps(
        machine=None,
        size=size,
        found=Rate.of(len(delays), cases),
        found_early=Rate.of(sum(one <= EARLY for one in delays), cases),
        delays=delays,
    )


def shown(report):
    page = self_test_page(report)
    texts = " ".join(Page(page_html(page)).texts), printed(page, width=300)
    return [" ".join(text.split()) for text in texts]


@pytest.fixture(scope="module")
def report():
    """Real histories of one target, and too short ones of another."""
    histories = [
        *level_histories("g5.xlarge", series=2),
        *level_histories("g4dn.xlarge", series=1, runs=8),
    ]
    return report_of(try_suite("blog", histories, Threshold(0.04, needed=3), steps=4))


def test_page_and_table_say_what_was_found_and_where(report):
    for text in shown(report):
        for expected in (
            "Suite blog, copies of the real history: steps found: 0 of 4 (3 %), 4 of 4 (5 %)",
            "Suite blog, synthetic histories: steps found: ",
            "g4dn.xlarge on cuda: no stretch of 20 runs without a change",
            "g5.xlarge on cuda",
            "3 runs",
            "4 of 4 100 %, 51 % to 100 %",
            "Alarms in untouched histories: 0 in 44 runs of individual series, 0 per 1,000",
            "False alarms: 0 in 32 runs of individual series",
            "Fresh re-runs of suspects can't be replayed",
        ):
            assert expected in text, expected


def test_the_page_is_valid_self_contained_and_accessible(report):
    page = Page(page_html(self_test_page(report)))
    page.check()
    assert "b" not in {name for name, _ in page.tags}


@pytest.mark.parametrize("note", [(), ("The history is empty.",)])
def test_without_a_history_page_and_table_say_so_in_a_line(note):
    for text in shown(report_of(notes=note)):
        assert "Nothing to test: the history has no series that is long enough." in text
        assert all(one in text for one in note)


def test_what_was_never_found_is_counted():
    steps = (build_steps((1, 1, 4), 5), build_steps((), 8, 0.03))
    part = Part(source="history", series=1, runs=40, steps=steps, alarms=NONE)
    page = self_test_page(report_of(SuiteTest(suite="blog", parts=(part,), notes=())))
    chart, table, _ = (block for block in page.blocks if not isinstance(block, Text))
    assert [row[-1] for row in table.rows] == ["1: 2, 4: 1, never: 2", "never: 8"]
    titles = re.findall(r"<title>([^<]*)</title>", chart.charts[0].svg)
    assert any(title.startswith("10 %, Found in 10 runs: 3 of 5") for title in titles)
