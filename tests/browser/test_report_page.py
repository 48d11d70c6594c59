"""The report as a page of its own: an answer without scrolling, small, printable, for all."""

import gzip
import re
from datetime import UTC, datetime

import pytest

from batchmark.checks.records import Check, EnvironmentCheck
from batchmark.report.page import page_html
from batchmark.report.pages.published_page import published_page
from batchmark.report.pages.table_pages import environment_page
from batchmark.report.studies import beside
from batchmark_job.result.own_job import BadLine
from tests.browser import views
from tests.builders.own_job_studies import (
    TIMES,
    estimate,
    metric,
    own_job_report,
    own_jobs_of,
    side,
    study,
)
from tests.builders.reports import render_html, report_of
from tests.builders.runs import build_full_job, build_lost, build_row, build_run, noisy
from tests.builders.scaling_runs import Cluster, scaling_job, sweep

GPUS, CPUS = ("g4dn.xlarge", "g5.xlarge", "g6.xlarge"), ("c5.2xlarge", "c6i.2xlarge", "c7i.2xlarge")
SIZES = (1000, 2000, 4000, 8000)
WORKLOADS = ("matmul", "convolution", "gaussian_blur", "sort")
EVIL = "<img src=x onerror=alert(1)><script>document.title='owned'</script>\"'\x07" + "x" * 10_000
MOST_PAGES, MOST_BYTES = 5, 1_500_000
NAMES = ("nine-pairs", "lost-jobs", "published-alone", "nodes", "what-if", "own-job", "checks")


def job(target, repeat, place):
    """16 rows: a GPU takes as long at any size, a CPU longer the larger it is."""
    gpu = target[0] == "g"
    rows = [
        build_row(
            noisy((0.02 if gpu else size / 200_000) * (1 + place / 10), seed=repeat),
            workload=workload,
            parameters={"size": size},
        )
        for workload in WORKLOADS
        for size in SIZES
    ]
    return build_full_job(target, rows, repeat=repeat)


def nine_pairs():
    return report_of(
        build_run(
            *(
                job(target, repeat, place)
                for targets in (GPUS, CPUS)
                for place, target in enumerate(targets)
                for repeat in (1, 2, 3)
            )
        )
    )


def lost():
    return report_of(build_run(job("g5.xlarge", 1, 0), lost=[build_lost("c5.2xlarge", EVIL)]))


def nodes():
    cluster = Cluster()
    extra = [cluster.reading(8, kind, 1e8) for kind in ("cold", "warm")]
    last = scaling_job("g5.xlarge", 8, [cluster.training(8), *cluster.all_reduces(8), *extra])
    return report_of(build_run(*sweep(cluster, (1, 2, 4), strong=True), last))


def own_job():
    bad = [BadLine(source="log", number=1, text=EVIL[:2000], problem=f"no JSON: {EVIL[:200]}")]
    told = metric("throughput", 600.0, "images/s", usd_per_unit=estimate(5e-7))
    metrics = dict.fromkeys(TIMES["g5.xlarge"], (told,))
    sides = [side(name, of, metrics=metrics, bad_lines=bad) for name, of in TIMES.items()]
    jobs = [one for name, of in TIMES.items() for one in own_jobs_of(name, of, repeats=3)]
    return own_job_report(study(*sides, deadline_seconds=60), jobs=jobs)


def failed_check():
    failed = Check(
        name="image", target="g5.xlarge", status="fail", seen=EVIL[:200], remedy="push it"
    )
    return EnvironmentCheck(
        installation="lab",
        region="us-east-1",
        checked_at=datetime(2026, 11, 20, tzinfo=UTC),
        checks=[failed],
    )


@pytest.fixture(scope="module")
def pages():
    return {
        "nine-pairs": render_html(nine_pairs(), drawn=True),
        "lost-jobs": render_html(lost(), drawn=True),
        "published-alone": page_html(published_page()),
        "nodes": render_html(nodes(), beside={"what-if": "scaling.html"}, drawn=True),
        "what-if": page_html(beside(nodes())[0].page),
        # As of a target without its GPU, which has the longest name.
        "own-job": render_html(own_job(), drawn=True).replace(
            "c5.2xlarge", "g4dn.xlarge (ran on the CPU)"
        ),
        "checks": page_html(environment_page(failed_check())),
    }


@pytest.fixture
def open_page(browser, tmp_path, pages):
    asked = []

    def opened(name):
        path = tmp_path / "page.html"
        path.write_text(pages[name])
        tab = browser.new_page()
        tab.set_viewport_size(views.WIDE)
        asked.append(views.strangers(tab, "file:"))
        tab.goto(path.as_uri())
        return tab

    yield opened
    assert asked
    assert not any(asked)


@pytest.mark.parametrize("name", NAMES)
def test_it_stands_screen_readers_and_small_screens(open_page, name):
    tab = open_page(name)
    assert views.barriers(tab) == []
    assert views.cut(tab) == []
    assert views.lost(tab) == []
    if name != "lost-jobs":  # with its 10,000 characters it is too high for a picture
        assert len(views.take_pictures(tab, name)) == 4
        assert len(re.findall(rb"/Type\s*/Page\b", tab.pdf(format="A4"))) <= MOST_PAGES


@pytest.mark.parametrize("name", ["nine-pairs", "published-alone", "nodes", "own-job"])
def test_the_answer_needs_no_scrolling(open_page, name):
    box = open_page(name).locator(".answer").bounding_box()
    assert box["y"] + box["height"] <= views.WIDE["height"]


def test_an_own_job_is_answered_in_three_lines(open_page):
    answer = open_page("own-job").locator(".verdict").first
    height = answer.evaluate("one => parseFloat(getComputedStyle(one).lineHeight)")
    assert round(answer.bounding_box()["height"] / height) <= 3


def test_nine_pairs_are_small(pages):
    assert len(gzip.compress(pages["nine-pairs"].encode())) < MOST_BYTES


@pytest.mark.parametrize("name", ["lost-jobs", "own-job"])
def test_hostile_text_stays_text(open_page, name):
    tab = open_page(name)
    assert tab.title().startswith("Batchmark: ")
    assert "scheduled__2026-11-20" in tab.inner_text("header")
    assert tab.locator("img").count() == 0
    assert "onerror=alert(1)" in (tab.text_content("main") or "")
