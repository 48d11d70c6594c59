"""The tables on a terminal."""

import io

import pytest
from rich.console import Console

from batchmark.report.page import render_html
from batchmark.report.terminal.run import render_table
from tests.builders.reports import report_of
from tests.builders.runs import build_job, build_row, build_run


def report(repeats):
    return report_of(
        build_run(
            *(
                build_job(
                    target,
                    [build_row((seconds,) * 8)],
                    repeat=repeat,
                    batch_seconds=100 * seconds + repeat / 10,
                )
                for target, seconds in (("g5.xlarge", 0.5), ("c5.2xlarge", 1.0))
                for repeat in range(1, repeats + 1)
            )
        )
    )


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize(("repeats", "known"), [(5, False), (6, True)])
def test_whole_jobs_have_a_ratio_where_it_has_an_interval(width, repeats, known):
    out = io.StringIO()
    render_table(report(repeats), Console(file=out, width=width))
    (line,) = [line for line in out.getvalue().splitlines() if "Whole job, Batch" in line]
    assert ("1.99" in line, "not known" in line) == (known, not known)
    page = render_html(report(repeats))
    assert page.count("needs at least 6</span>") == (0 if known else 2)
