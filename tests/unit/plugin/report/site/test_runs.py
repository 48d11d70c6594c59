"""A run as the list of all runs shows it, and what runs have cost, by target."""

from datetime import UTC, datetime

import pytest

from batchmark.core.run import RunPlan
from batchmark.report.answer import summarize
from batchmark.report.site.costs import Month
from batchmark.report.site.runs import RunLine
from tests.builders.reports import report_of
from tests.builders.runs import build_job, build_run

NOW = datetime(2026, 12, 6, tzinfo=UTC)


@pytest.mark.parametrize(
    ("run_id", "dag_id", "suite", "name"),
    [
        (
            "scheduled__2026",
            "gpu_cpu_benchmark",
            "blog",
            "suite blog, 2026-12-06 00:00 UTC, scheduled",
        ),
        ("manual__2026", "own_job_benchmark", "job-a", "job a, 2026-12-06 00:00 UTC, triggered"),
        ("mine", "job_comparison", "", "Job comparison, 2026-12-06 00:00 UTC"),
        ("mine", "", "", "run, 2026-12-06 00:00 UTC"),
    ],
)
def test_a_run_is_named_by_what_when_and_why(run_id, dag_id, suite, name):
    assert RunLine(run_id, NOW, dag_id, suite, "success").name == name


def test_a_run_without_a_result_is_named_by_what_it_planned():
    plan = RunPlan(jobs=(build_job("c5.2xlarge", [], suite="job-convert").planned,))
    assert RunLine("mine", NOW, "own_job_benchmark", "", "failed").with_plan(plan).name == (
        "job convert, 2026-12-06 00:00 UTC"
    )


@pytest.mark.parametrize(
    ("worse", "since", "too_early", "changed"),
    [
        (None, None, False, "not judged: not compared with earlier runs"),
        (1, None, False, "1 change for the worse"),  # stored before its date was
        (1, NOW, False, "1 change for the worse, since 2026-12-06"),
        (2, NOW, True, "2 changes for the worse, the first since 2026-12-06"),
        (0, None, True, "not known yet: too few runs"),
        (0, None, False, "nothing worse"),
    ],
)
def test_a_line_counts_what_changed_for_the_worse(worse, since, too_early, changed):
    summary = summarize(report_of(build_run()))
    told = {"worse": worse, "worse_since": since, "too_early": too_early}
    summary = summary.model_copy(update=told)
    assert RunLine("run", NOW, "", "blog", "success", summary).changed == changed


def test_a_run_that_was_not_looked_at_has_no_changes_known():
    assert summarize(report_of(build_run())).worse is None


def test_targets_stand_in_their_one_order():
    found = Month(None, {"g5.12xlarge": 1.0, "unknown target": None, "g5.2xlarge": 0.0})
    assert found.targets == [
        ("g5.2xlarge", "no\N{NO-BREAK SPACE}dollars"),
        ("g5.12xlarge", "$1.00"),
        ("unknown target", "not known"),
    ]
