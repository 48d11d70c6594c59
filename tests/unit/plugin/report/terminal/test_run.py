"""The tables on a terminal."""

import pytest

from tests.builders.reports import render_html, report_of, terminal
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
    text = terminal(report(repeats), width)
    (line,) = [line for line in text.splitlines() if "Whole job, Batch" in line]
    assert ("1.99" in line, "not known" in line) == (known, not known)
    page = render_html(report(repeats))
    assert page.count("needs at least 6</span>") == (0 if known else 2)
