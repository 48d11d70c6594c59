"""The pages of the environment check, the leak guard and the noise: the answer, then tables."""

import re
from datetime import UTC, datetime
from html import unescape

import pytest

from batchmark.analysis.judging.calibration import calibrate
from batchmark.checks.leak_records import GuardReport, Resource
from batchmark.checks.records import Check, EnvironmentCheck
from batchmark.core.run import RunPlan, TargetWorst, WorstCase
from batchmark.report.page import page_html
from batchmark.report.pages.table_pages import environment_page, guard_page, noise_page, plan_page
from tests.builders.pairs import at_sizes
from tests.builders.runs import build_run

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
    common = {"jobs": 1, "submissions": 1, "timeout_seconds": 60, "usd": None}
    worst = WorstCase(
        targets=[
            TargetWorst(target=name, instance_type=name, usd_per_hour=usd, **common, **limits)
            for name, usd in prices.items()
            for limits in ({"attempts": 1}, {"attempts": 2})  # on one instance
        ],
        usd=1.0,
        region="us-east-1",
        prices_as_of=NOON.date(),
        prices_source="here",
        notes=("These prices are old: let Airflow ask AWS.",),
    )
    page = page_html(plan_page(RunPlan(jobs=()), worst, refused, where=where))
    assert said in answer(page)
    assert answer(page).endswith(f"The run would {'be refused' if refused else 'start'}.")
    assert "rounded up to cents" in page
    assert page.count("let Airflow ask AWS") == notices  # nobody can, off AWS
