"""Pages that are no run's report: checks, leaks, noise, plan, published table, self-test."""

import re
from datetime import UTC, datetime
from html import unescape

import pytest

from batchmark.analysis.judging.calibration import calibrate
from batchmark.changes.self_test.records import Alarms, Part, SelfTest, Steps, SuiteTest
from batchmark.changes.self_test.self_test import EARLY, WAITED, try_suite
from batchmark.changes.shares import Rate
from batchmark.checks.leak_records import GuardReport, Resource
from batchmark.checks.records import Check, EnvironmentCheck
from batchmark.core.run import RunPlan
from batchmark.report.blocks import Text
from batchmark.report.page import page_html
from batchmark.report.pages.published_page import published_page
from batchmark.report.pages.self_test_page import self_test_page
from batchmark.report.pages.table_pages import environment_page, guard_page, noise_page, plan_page
from tests.builders.pairs import at_sizes
from tests.builders.reports import Page, printed
from tests.builders.runs import build_run
from tests.builders.self_test import Threshold, level_histories
from tests.builders.spending import priced, worst_case

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def check(name, status, remedy=""):
    return Check(name=name, target="g5.xlarge", status=status, seen="seen", remedy=remedy)


def environment(*checks):
    at = {"installation": "lab", "region": "us-east-1", "checked_at": NOON}
    return page_html(environment_page(EnvironmentCheck(**at, checks=checks)))


def guard(*resources, unread=()):
    at = {"installation": "lab", "region": "us-east-1", "looked_at": NOON}
    return page_html(guard_page(GuardReport(**at, resources=resources, unread=unread)))


def resource(verdict, what="blog"):
    return Resource(kind="job", id="job-1", what=what, since=NOON, verdict=verdict, reason="why")


def noise(repeats):
    jobs = at_sizes("c5.2xlarge", 0.001, repeats=repeats)
    return page_html(noise_page(calibrate(build_run(*jobs), region="us-east-1")))


QUEUE = check("queue", "ok")
WARNED = environment(QUEUE, check("quota", "warn", "raise it"))
FAILED = environment(QUEUE, check("image", "fail", "push it"))
LEAKED = guard(resource("in use", "second"), resource("leaked", "first"))
UNREAD = guard(unread=("EC2 did not answer",))


def answer(page):
    return unescape(re.search(r'<p class="verdict">([^<]*)</p>', page)[1])


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (environment(QUEUE, check("image", "ok")), "All 2 checks passed: jobs can run."),
        (FAILED, "1 of 2 checks failed, so no job is submitted: image of g5.xlarge."),
        (WARNED, "No check failed; 1 of 2 checks need attention."),
        (guard(), "No leak: nothing runs."),
        (guard(resource("in use")), "No leak: 1 in use."),
        (LEAKED, "1 leak: something that no run needs is costing money."),
        (UNREAD, "No leak was found, but not everything could be checked."),
        (noise(1), "Noise is not known: no target had enough jobs."),
    ],
)
def test_the_answer_is_told_in_a_sentence(page, said):
    assert answer(page) == said


def test_what_somebody_has_to_look_at_stands_first():
    assert FAILED.index("push it") < FAILED.index("<details>") < FAILED.index("<summary>1 passed<")
    assert LEAKED.index("first") < LEAKED.index("second")
    assert "EC2 did not answer" in UNREAD


def test_noise_is_told_as_a_range_and_is_not_known_of_two_jobs():
    page = noise(6)
    assert re.fullmatch(
        r"Depending on the row, identical jobs differ by .* on 1 target\.", answer(page)
    )
    assert "not known" not in page
    page = noise(2)
    assert "not known" in page
    assert "2 jobs per target were too few" in unescape(page)
    assert not [text for text in re.findall(r"(\d+) %", page) if float(text) >= 100]


@pytest.mark.parametrize(
    ("where", "prices", "refused", "said", "notices"),
    [
        ("", {}, [], "come on top. The run would start.", 1),
        ("", {"a": 1, "b": None}, [], "15 minutes, come on top. The run would start.", 1),
        (
            "",
            {"a": 1, "b": 2.6},
            [],
            "$1.00 at most. Boot and idling of each instance, 2 to 15 minutes, come on top: $0.12 "
            "to $0.90 for one instance of each target. The run would start.",
            1,
        ),
        (" here", {"a": 4}, ["no"], "in AWS: $0.13 to $1.00 for one instance of each target. ", 0),
    ],
)
def test_a_dry_run_says_what_would_become_of_the_run(where, prices, refused, said, notices):
    targets = [each for attempts in (1, 2) for each in priced(prices, attempts)]  # one instance
    worst = worst_case(targets=targets, notes=("These prices are old: let Airflow ask AWS.",))
    page = page_html(plan_page(RunPlan(jobs=()), worst, refused, where=where))
    assert said in answer(page)
    assert answer(page).endswith(f"The run would {'be refused' if refused else 'start'}.")
    assert "rounded up to cents" in page
    assert page.count("let Airflow ask AWS") == notices  # nobody can, off AWS


@pytest.fixture(scope="module")
def published():
    return unescape(page_html(published_page()))


def test_that_others_published_it_and_the_answer_come_first_with_the_prices_it_rests_on(published):
    body = published[published.index("<body>") :]
    assert "Not measured by Batchmark" in body[: body.index("<h1>")]
    assert "<h1>A table published by others</h1>" in body
    assert body.lower().count("published by others") <= 2
    first = published[: published.index('id="sizes"')]
    assert "Yes at large sizes." in first
    counts = "g5.8xlarge against r5.4xlarge is faster in 5 and cheaper in 5 of the 7 rows that can"
    assert counts in first
    assert '<span class="small">27× to 50×</span>' in first  # of the rows that are judged
    assert '<span class="small">4.2× to 5.6×</span>' in first  # only rows that are decided
    assert "2 to 17 times slower than plain library calls" in first
    assert "ratios are of dollars at $2.448 an hour and $1.008 an hour, CPU / GPU" in first
    assert "Matrix products become faster at some size between 1,000 and 5,000" in published
    assert "Size 1,000 is not drawn: the 0.88 s on g5.8xlarge are start-up" in published
    # All ratios are rounded alike.
    ratios = [float(ratio) for ratio in re.findall(r"([\d.]+)×", published)]
    assert len(ratios) > 20
    assert [ratio for ratio in ratios if ratio != float(f"{ratio:.2g}")] == []


def test_defective_rows_are_not_judged_and_each_defect_is_named_with_its_figure(published):
    assert published.count(">not judged<") == 4  # the start-up's and the repeated one's, twice each
    total = published[published.index("Total job time") :]
    words = re.findall(r"<span>(faster|slower|cheaper|dearer|not known yet)", total)
    assert words == ["faster", "not known yet"]
    for figure in ("0.88 s", "33 to 100×", "7.78 s and 1.63 s", "5.3", "16 vCPUs", "44", "2 to 17"):
        assert figure in published


NONE = Alarms(alarms=0, withdrawn=0, series_runs=0, low=0.0, high=None)


def self_test_of(*suites, **fields):
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
    return self_test_of(try_suite("blog", histories, Threshold(0.04, needed=3), steps=4))


def test_a_self_test_says_what_was_found_and_where_on_a_valid_page_and_in_a_table(report):
    page = Page(page_html(self_test_page(report)))
    page.check()
    assert "b" not in {name for name, _ in page.tags}
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


@pytest.mark.parametrize("note", [(), ("The history is empty.",)])
def test_without_a_history_page_and_table_say_so_in_a_line(note):
    for text in shown(self_test_of(notes=note)):
        assert "Nothing to test: the history has no series that is long enough." in text
        assert all(one in text for one in note)


def test_what_was_never_found_is_counted():
    steps = (build_steps((1, 1, 4), 5), build_steps((), 8, 0.03))
    part = Part(source="history", series=1, runs=40, steps=steps, alarms=NONE)
    page = self_test_page(self_test_of(SuiteTest(suite="blog", parts=(part,), notes=())))
    chart, table, _ = (block for block in page.blocks if not isinstance(block, Text))
    assert [row[-1] for row in table.rows] == ["1: 2, 4: 1, never: 2", "never: 8"]
    titles = re.findall(r"<title>([^<]*)</title>", chart.charts[0].svg)
    assert any(title.startswith("10 %, Found in 10 runs: 3 of 5") for title in titles)
