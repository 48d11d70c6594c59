"""Wherever something is not known yet, it is said what to do; no word stands on failed checks."""

import re

import pytest

from batchmark.analysis.owners_checks import OUTPUTS_DIFFER
from batchmark.changes.standing import standings
from batchmark.changes.suspects import too_early
from batchmark.report.answer import first_screen, summarize
from batchmark.report.blocks import NOT_KNOWN
from batchmark.report.own_jobs.words import checks
from batchmark.report.page import page_html
from batchmark.report.pages.published_page import published_page
from batchmark.report.site import trends
from batchmark.report.site.costs import Forecast
from batchmark.report.site.runs import RunLine
from batchmark.report.studies import beside
from batchmark.report.words import NOT_KNOWN as YET
from tests.builders.changed_series import build_history, build_key
from tests.builders.own_job_studies import (
    CPU,
    GPU,
    own_job_report,
    side_by_start,
    sides_at_64,
    study,
    telling,
    throughput,
)
from tests.builders.pairs import at_sizes
from tests.builders.reports import NOON, report_of
from tests.builders.runs import LAPTOP_ENVIRONMENT, build_job, build_run
from tests.builders.scaling_runs import Cluster, scaling_job, sweep
from tests.builders.sharing import curve_rows, shared_row, sharing_job
from tests.paths import ROOT

PLUGIN = ROOT / "plugins" / "batchmark"
WORDS = re.compile(r"\b[Nn]ot known yet\b|\bNOT_KNOWN\b|\"Not known\"")
REMEDY = re.compile(
    r"more repeats|run it|at least \d+ repeats|more node counts|more runs would tell|needs \d+"
    r" runs|too few runs|first run will|until \d+ runs|task detect_regressions for|run adds to|"
    r"let a check judge|\d+ repeats per side",
    re.IGNORECASE,
)
OPEN = re.compile(rf"\b{NOT_KNOWN}[.:]")
# Where they are made or passed on, and who says them is below, or says no more than a count.
ELSEWHERE = {
    "report/blocks.py",
    "analysis/judging/advice.py",
    "report/words.py",
    "changes/standing.py",
    "analysis/side_by_side.py",
    "report/site/compare.py",  # test_site, test_command_line
    "report/scaling/words.py",  # of a name
    "runs/own_jobs/lines.py",  # of a log
    "runs/own_jobs/storing.py",
}


def pairs(repeats=6, **fields):
    """Of two targets whose jobs take as long."""
    gpu, cpu = at_sizes(GPU, 1.0, repeats=repeats), at_sizes(CPU, 1.0, repeats=repeats, **fields)
    return report_of(build_run(*gpu, *cpu))


def own(*sides, **fields):
    return own_job_report(study(*sides, **fields))


def started():
    return own(side_by_start(GPU, cold=8.0, warm=8.0), side_by_start(CPU, cold=8.0, warm=16.0))


def shared(spread):
    flat = curve_rows("time_slicing", dict.fromkeys((1, 2, 4), 100.0), spread=spread)
    return report_of(build_run(sharing_job(GPU, [shared_row("exclusive", 1, 100.0), *flat])))


PAIRS = {
    "report/pairs/answer.py",
    "report/templates/blocks/Comparison.jinja",
    "report/terminal/rows.py",
    "analysis/pairs/notes.py",
    "analysis/judging/verdict.py",
}
OWN_JOBS = {
    "report/own_jobs/answer.py",
    "report/own_jobs/sections.py",
    "report/own_jobs/sentences.py",
}
SHARING = {"report/sharing/answer.py", "report/sharing/words.py"}
FAILED = "1 of 1 job failed: exit code 3"
DIFFER = f"{OUTPUTS_DIFFER}; by SHA-256, {GPU} has aa, {CPU} has bb"
REPORTS = {
    "two equal targets": (pairs, PAIRS),
    "two targets with one job each": (lambda: pairs(repeats=1), PAIRS),
    "two machines outside EC2": (lambda: pairs(environment=LAPTOP_ENVIRONMENT), PAIRS),
    "nothing": (lambda: report_of(build_run()), PAIRS),
    "one target": (lambda: report_of(build_run(build_job(GPU, []))), PAIRS),
    "an own job on equal sides": (lambda: own(*sides_at_64(10.0, 10.0)), OWN_JOBS),
    "an own job with few repeats": (lambda: own(*sides_at_64(8.0, 9.0, jobs=3)), OWN_JOBS),
    "an own job whose metric is open": (
        lambda: own_job_report(telling([throughput(100.0)], [throughput(100.0)])),
        OWN_JOBS,
    ),
    "an own job with cold starts": (started, OWN_JOBS),
    "an own job whose outputs differ": (
        lambda: own(*sides_at_64(None, None, problems={64: DIFFER})),
        OWN_JOBS,
    ),
    "an own job that failed": (
        lambda: own(*sides_at_64(None, None, problems={64: FAILED})),
        OWN_JOBS,
    ),
    "sharing that noise hides": (lambda: shared(0.2), SHARING),
    "nodes that don't train": (
        lambda: report_of(build_run(scaling_job(GPU, 2, Cluster().all_reduces(2)))),
        {"report/scaling/answer.py"},
    ),
    "nodes of which there is no model": (
        lambda: report_of(build_run(*sweep(Cluster(), (1, 2), all_reduce=False))),
        {"report/scaling/answer.py"},
    ),
    "one number of nodes": (
        lambda: report_of(build_run(*sweep(Cluster(), (2,)))),
        {"report/scaling/answer.py"},
    ),
}


@pytest.mark.parametrize("name", REPORTS)
def test_a_run_says_what_to_do_beside_each_answer_that_is_not_known(name):
    screen = first_screen(REPORTS[name][0]())
    answers = [one for story in screen.stories for one in story.answers]
    texts = [" ".join((*one.lines, *one.cautions)) for one in answers]
    texts += [line.answer for line in screen.lines]
    unknown = [text for text in texts if YET in text.lower() or OPEN.search(text)]
    assert unknown, "this run leaves nothing open"
    assert [text for text in unknown if not REMEDY.search(text)] == []


def what_if():
    jobs = [*sweep(Cluster(), (1, 2, 4)), *sweep(Cluster(), (2,), target="p3.8xlarge")]
    (one,) = beside(report_of(build_run(*jobs)))
    text = page_html(one.page)
    assert "Not known" in text
    return text


def too_early_line():
    summary = summarize(report_of(build_run()))
    summary = summary.model_copy(update={"worse": 0, "too_early": True})
    return RunLine("run", NOON, "", "blog", "success", summary).changed


def trend():
    history = build_history(build_key(), [0.01, 0.012, 0.011])
    found = trends.trends([history], [], {}, standings=standings([history]))
    assert YET in found[0].before
    return trends.summary(found, "blog", history.metric)


TEXTS = {
    "changes/suspects.py": lambda: too_early(3),
    "report/site/costs.py": lambda: Forecast("dag", 4, False, ()).text,
    "report/site/runs.py": too_early_line,
    "report/site/trends.py": trend,
    "report/pages/published_page.py": lambda: page_html(published_page()),
    "report/scaling/what_if.py": what_if,
}


@pytest.mark.parametrize("place", TEXTS)
def test_a_page_says_what_to_do_where_something_is_not_known_yet(place):
    assert REMEDY.search(TEXTS[place]())


def test_all_places_that_say_so_are_tried_here():
    """Whoever adds one adds what it says to do."""
    paths = [path for ending in ("py", "jinja") for path in PLUGIN.rglob(f"*.{ending}")]
    found = {str(one.relative_to(PLUGIN)) for one in paths if WORDS.search(one.read_text())}
    tried = ELSEWHERE.union(TEXTS, *(files for _, files in REPORTS.values()))
    assert found == tried


def test_that_no_result_was_checked_never_stands_above_checks_that_failed():
    failed = study(*sides_at_64(None, None, problems={64: FAILED}))
    assert checks([failed]) == "No result counts: each check failed."
    differ = study(*sides_at_64(None, None, problems={64: DIFFER}))
    assert checks([differ]) == "No result counts: the sides' outputs differ."
    unchecked = study(*sides_at_64(None, None, problems={64: "lost"}, each={"checked_by": ()}))
    assert checks([unchecked]) == "There is no result to check."
