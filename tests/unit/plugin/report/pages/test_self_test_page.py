"""The self-test's page and table."""

import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from batchmark.changes.self_test.records import Machine, SelfTest, Steps
from batchmark.changes.self_test.self_test import EARLY, WAITED, try_suite
from batchmark.core.shares import Rate
from batchmark.report.pages.self_test_page import RecallChart, delay_bars, render_html, render_table
from tests.builders.self_test import Threshold, level_histories
from tests.unit.plugin.report.test_page import Page


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
    console = Console(file=io.StringIO(), width=300)
    render_table(report, console)
    page = " ".join(Page(render_html(report)).texts)
    return [" ".join(text.split()) for text in (page, console.file.getvalue())]


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
            "Alarms in untouched histories: 0 in 44 runs of a series, 0 per 1,000",
            "False alarms: 0 in 32 runs of a series",
            "Fresh re-runs of suspects can't be replayed",
        ):
            assert expected in text, expected


def test_the_page_is_valid_self_contained_and_accessible(report):
    page = Page(render_html(report))
    page.check()
    assert "b" not in {name for name, _ in page.tags}


@pytest.mark.parametrize("note", [(), ("The history is empty.",)])
def test_without_a_history_page_and_table_say_so_in_a_line(note):
    for text in shown(report_of(notes=note)):
        assert "Nothing to test: the history has no series that is long enough." in text
        assert all(one in text for one in note)


def test_the_record_survives_as_json(report):
    assert SelfTest.model_validate_json(report.model_dump_json()) == report


def test_shares_lie_higher_the_larger_they_are_within_the_frame():
    chart = RecallChart(
        [build_steps((), 8, 0.03), build_steps((1, 2, 7), 8), build_steps((1,) * 8, 8)]
    )
    waited = [mark for mark in chart.marks if mark.kind == "waited"]
    assert [mark.y for mark in waited] == sorted((mark.y for mark in waited), reverse=True)
    assert chart.sizes == [(24.17, "3 %"), (54.5, "10 %"), (84.83, "10 %")]
    assert chart.ticks == [(88, "0 %"), (47, "50 %"), (6, "100 %")]
    for mark in chart.marks:
        assert 0 <= mark.high <= mark.y <= mark.low <= 100
        assert 0 <= mark.x <= 100


def test_the_last_bar_is_of_what_was_never_found():
    found = delay_bars(build_steps((1, 1, 4), 5), WAITED)
    assert [(bar.found, bar.height) for bar in found] == [
        (True, 100.0),
        (True, 50.0),
        (False, 100.0),
    ]
    assert found[0].x == 0
    assert all(bar.x + bar.width <= 100 for bar in found)
    assert delay_bars(build_steps((WAITED,), 1), WAITED)[0].found


def test_machines_are_told_apart_by_what_they_ran_on():
    assert str(Machine(target="g4dn.xlarge", device="cpu")) == "g4dn.xlarge on cpu"
