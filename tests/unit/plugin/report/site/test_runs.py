"""A run as the list of all runs shows it."""

from datetime import UTC, datetime

import pytest

from batchmark.report.answer import summarize
from batchmark.report.site.runs import RunLine
from tests.builders.reports import report_of
from tests.builders.runs import build_run

NOW = datetime(2026, 12, 6, tzinfo=UTC)


@pytest.mark.parametrize(
    ("worse", "too_early", "changed"),
    [
        (None, False, "-"),
        (1, False, "1 change for the worse"),
        (2, True, "2 changes for the worse"),
        (0, True, "not known yet"),
        (0, False, "nothing worse"),
    ],
)
def test_a_line_counts_what_changed_for_the_worse(worse, too_early, changed):
    summary = summarize(report_of(build_run()))
    summary = summary.model_copy(update={"worse": worse, "too_early": too_early})
    assert RunLine("run", NOW, "", "blog", "success", summary).changed == changed
