"""Series over time, and two sides beside each other."""

import csv
import io
import json
import re
from datetime import timedelta
from html import unescape
from urllib.parse import quote

import pytest

from batchmark.core import formatting
from batchmark.core.names import slug
from batchmark.orchestration import settings
from batchmark.report.model import Report
from batchmark.report.site.trends import MARKS, series_id
from batchmark_job.result.document import Device
from batchmark_job.result.version import GivenVersion
from tests.builders.alerts import change, point
from tests.builders.history import NOON, two_targets
from tests.builders.runs import CPU_ENVIRONMENT, GPU_ENVIRONMENT, LAPTOP_ENVIRONMENT
from tests.stand_ins.visitors import sides


def test_a_trend_of_one_run_is_a_figure_without_a_range_and_no_empty_chart(pages, shelf):
    run_id = shelf.measured(page=True)
    text = pages.text("/trends")
    assert 'class="history"' not in text
    assert re.search(rf'/runs/{quote(run_id)}"><span class="small">[^<]+; 1 run since', text)
    spans = re.findall(r'<span class="small">([^<]*; 1 run since [^<]*)</span>', text)
    assert [" to " in span for span in spans] == [False] * 4
    series = pages.text(re.search(r'href="(/trends/[^"]+)"', text)[1].replace("&amp;", "&"))
    assert "<figure" not in series
    assert "Its only run." in series
    when = formatting.moment(two_targets().began_at)
    compared = pages.text(f"/compare?{sides(run_id, run_id, ('g5.xlarge', 'c5.2xlarge'))}")
    for page in (series, compared, pages.text("/runs"), pages.text(f"/runs/{run_id}")):
        assert when in page, "a run is named by when it began"
        assert f" {NOON:%H:%M}" not in page
    assert f'<span class="small">{run_id}</span>' in series
    rows = list(csv.reader(io.StringIO(pages.text("/trends.csv?suite=blog"))))
    assert rows[0] == ["row", "target", "run", "began_at", "time", "version"]
    assert [row[2] for row in rows[1:]] == [run_id] * 4


@pytest.mark.parametrize("path", ["trends.csv", "trends/any"])
def test_a_suite_or_a_series_that_is_not_there_is_told(pages, shelf, path):
    shelf.measured()
    assert "no suite none; it has blog." in pages.text(f"/{path}?suite=none", 404)
    assert "no such series" in pages.text("/trends/none?suite=blog", 404)


def test_trends_show_every_series_with_alerts_and_releases(pages, shelf):
    ids = [shelf.measured(day, environment=GPU_ENVIRONMENT) for day in range(4)]
    other = GPU_ENVIRONMENT.model_copy(update={"image_digest": "sha256:" + "cd" * 32})
    ids.append(shelf.measured(4, slowdown=1.5, environment=other))
    (series, *_) = pages.app.state.library().series("blog", "time", 60)
    shelf.alert(change(point(of=series.key, first_run_id=ids[4])))
    text = pages.text("/trends")
    assert "4 series over up to 5 runs, 1 with an alert." in text
    assert text.count('class="mark alert"') == 1
    # To be read, and to be heard.
    assert len(re.findall(r"level \S+ m?s since \S+, \+\S+\s% from ", text)) == 2
    assert len(re.findall(r"the previous median, [^,]+, not known yet", text)) == 2 * 3
    assert text.count("dashed: image digest</span>") == 4
    assert re.search(r"<title>[^<]*: image digest sha256:\w+ → sha256:cdcdcdcdcdcd", text)
    one = pages.text(re.search(r'href="(/trends/[^"]+)"', text)[1].replace("&amp;", "&"))
    assert "<title>image digest sha256:" in one
    assert f">{MARKS['release']}</text>" in one
    assert re.search(r">[\d.]+ ms</text>", one)
    assert not re.search(r">[\d.]+[mµn]</text>", one)
    assert one.count('scope="row"') == 5


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        (None, True),
        ('{"false_alerts_a_month": 1e-300}', False),
        ('{"false_alerts_a_month": 0}', True),  # the next run says that it can't be used
    ],
)
def test_a_change_needs_the_evidence_that_runs_ask_for(pages, shelf, monkeypatch, text, changed):
    thirty_runs(shelf, slower_since=24)
    monkeypatch.setattr(settings.Variable, "get", lambda *_, **__: text)
    found = pages.app.state.library().standings("blog", "time", 60)
    assert {one.point is not None for one in found.values()} == {changed}


def thirty_runs(shelf, slower_since):
    runs = [two_targets(day, slowdown=1.3 if day >= slower_since else 1.0) for day in range(30)]
    for run in runs:
        shelf.bucket.append(run)
    return runs


def test_a_series_names_the_version_of_each_run_and_of_its_change(pages, shelf):
    commits = ["8ab0c11"] * 20 + ["3f2a91c"] * 10
    for day, commit in enumerate(commits):
        version = GivenVersion(commit=commit, branch="main")
        slowdown = 1.0 if commit == "8ab0c11" else 1.3
        shelf.bucket.append(two_targets(day, slowdown, version=version))
    (series, *_) = pages.app.state.library().series("blog", "time", 60)
    one = pages.text(f"/trends/{series_id(series.key)}?suite=blog")
    assert len(re.findall(r"; since 3f2a91c \(8ab0c11 before\)\.", one)) == 1
    assert one.count('<span class="small">commit 8ab0c11, branch main, image sha256:') == 20
    assert ">commit 8ab0c11 → 3f2a91c<" in one
    assert "commit 3f2a91c, branch main" in pages.text("/trends.csv?suite=blog")


def test_thirty_runs_with_a_change_show_it_where_it_happened_and_what_it_is_worth(pages, shelf):
    runs = thirty_runs(shelf, slower_since=20)
    (series, *_) = pages.app.state.library().series("blog", "time", 60)
    alert = shelf.alert(change(point(of=series.key, first_run_id=runs[20].run_id, after=0.013)))
    one = pages.text(f"/trends/{series_id(series.key)}?suite=blog")
    rows = re.findall(r'<th role="rowheader".*?</tr>', one, re.DOTALL)
    assert len(rows) == 30
    (marked,) = [row for row in rows if alert.id in row]
    assert "+30\N{NO-BREAK SPACE}%" in marked
    assert runs[20].run_id in marked
    held = r"the previous median, \S+ m?s, within the noise; level \S+ m?s since \S+, \+30\s% from "
    assert len(re.findall(held, pages.text("/trends"))) == 2 * 4
    (overview,) = re.findall(r'id="overview".*?</table>', pages.text("/runs"), re.DOTALL)
    assert overview.count(" against the previous median, ") == 2
    assert "a change" not in overview


def test_a_comparison_says_what_the_report_says(pages, shelf):
    run_id = shelf.measured()
    text = shelf.store(run_id).read(f"runs/{slug(run_id)}/report.json")
    report = Report.model_validate_json(text)
    query = sides(run_id, run_id, ("g5.xlarge", "c5.2xlarge"))
    found = json.loads(pages.text(f"/compare.json?{query}"))
    for ours, theirs in zip(found["suites"][0]["rows"], report.pairs[0].rows, strict=True):
        assert ours["speedup"]["value"] == pytest.approx(theirs.speedup.value)
        assert ours["verdict"] == theirs.verdict
    assert "1.0×" in pages.text(f"/compare?{query}")


def test_a_comparison_can_be_taken_along(pages, shelf):
    runs = shelf.measured(), shelf.measured(1, slowdown=4.0)
    query = sides(*runs)
    rows = list(csv.DictReader(io.StringIO(pages.text(f"/compare.csv?{query}"))))
    assert [row["verdict"] for row in rows] == ["faster", "faster"]
    assert float(rows[0]["ratio"]) == pytest.approx(4.0, rel=0.05)
    markdown = pages.text(f"/compare.md?{query}")
    assert "| matmul size 1000, float32 |" in markdown
    assert re.search(
        r"\| row \| (2026-11-20 \d\d:\d\d UTC) .*\| speedup \[95 %\] \| \1 is \|", markdown
    )
    assert "ratio" not in markdown
    assert re.search(r"The speedup is the time of g5.* / the time of g5.*\.", markdown)
    assert pages.client.get(f"/compare.png?{query}").content.startswith(b"\x89PNG")
    page = pages.text(f"/compare?{query}")
    assert "faster in 2, slower in 0" in page
    assert '<span class="value">faster</span>' in page, "an earlier run is no change"
    later = pages.text(f"/compare?{sides(*runs[::-1])}")
    assert len(re.findall(r'<span class="value">slower \(\+(2\d\d|3\d\d)\s%\)<', later)) == 2
    assert re.search(r"First: g5.xlarge in suite blog, [-\d]{10} \d\d:\d\d", page)
    pages.text(f"/compare.exe?{query}", 404)


@pytest.mark.parametrize(
    ("days", "second", "said"),
    [
        ((1, 0), "g5.xlarge", True),
        ((0, 1), "g5.xlarge", False),  # the older first
        ((1, 0), "c5.2xlarge", False),
    ],
)
def test_the_newer_run_says_since_which_version(pages, shelf, days, second, said):
    ids = [
        shelf.measured(day, 1 + 3 * day, version=GivenVersion(commit=commit))
        for day, commit in enumerate(("8ab0c11", "3f2a91c"))
    ]
    query = sides(*(ids[day] for day in days), ("g5.xlarge", second))
    text = pages.text(f"/compare?{query}")
    assert ("in 2 since 3f2a91c (8ab0c11 before)." in text) is (" before)" in text) is said
    assert re.search(r">commit</th>.*?(8ab0c11|3f2a91c)", text)


def test_a_side_may_be_a_commit_an_image_or_a_day(pages, shelf):
    first = shelf.measured(version=GivenVersion(commit="3f2a91c" + "0" * 33))
    other = CPU_ENVIRONMENT.model_copy(update={"image_digest": "sha256:" + "cd" * 32})
    second = shelf.measured(3, environment=other)
    for side, found in (
        ("3f2a91c0", first),
        ("sha256:cdcdcd", second),
        (f"{NOON + timedelta(days=2):%Y-%m-%d}", first),
        (f"{NOON + timedelta(days=9):%Y-%m-%d}", second),
    ):
        assert pages.app.state.library().chosen(side, "c5.2xlarge").run.run_id == found


@pytest.mark.parametrize(
    ("side", "target", "told"),
    [
        ("none", "g5.xlarge", "There is no run 'none': enter one that"),
        ("deadbee", "g5.xlarge", "There is no run 'deadbee': enter"),
        ("2020-01-01", "g5.xlarge", "no run of g5.xlarge on or before 2020-01-01: choose a later"),
        ("2026-13-45", "g5.xlarge", "2026-13-45 is not a valid date: enter one such as 2026-11-20"),
        (None, "p5.48xlarge", "no target p5.48xlarge: choose one of its targets (c5.2xlarge, g5."),
    ],
)
def test_sides_that_are_not_there_are_named(pages, shelf, side, target, told):
    run_id = shelf.measured()
    query = sides(side or run_id, run_id, (target, "g5.xlarge"))
    assert told in unescape(pages.text(f"/compare?{query}"))


def test_a_gpu_target_that_ran_on_the_cpu_is_marked_wherever_its_figures_are(pages, shelf):
    run_id = shelf.measured(environment=LAPTOP_ENVIRONMENT, actual_device=Device.CPU)
    label = "g5.xlarge (ran on the CPU)"
    trends = pages.text("/trends?suite=blog")
    assert label in trends
    assert "c5.2xlarge (ran" not in trends
    addresses = re.findall(r'href="([^"]*/trends/[^"?]+[^"]*)"', unescape(trends))
    assert any(label in pages.text(address) for address in addresses)
    assert label in pages.text("/trends.csv?suite=blog")
    query = sides(run_id, run_id)
    for page in ("compare", "compare.json"):
        assert f"{label} in {run_id}" in pages.text(f"/{page}?{query}")
    assert label in pages.text(f"/compare.md?{query}")


def test_a_row_that_the_newest_run_did_not_measure_says_so(pages, shelf):
    shelf.measured()
    missed = "not measured in the newest run"
    assert missed not in pages.text("/trends?suite=blog") + pages.text("/runs")
    shelf.measured(1, environment=LAPTOP_ENVIRONMENT, actual_device=Device.CPU)
    text = pages.text("/trends?suite=blog")
    assert missed in text
    assert "first run" in text
    assert f"{missed}; first run" not in text
    assert missed in pages.text("/runs")  # its speedups


def test_the_form_of_a_comparison_begins_with_the_newest_run(pages, shelf):
    shelf.measured()
    run_id = shelf.measured(1)
    text = pages.text("/compare")
    assert re.findall(r'name="(a|b)" list="runs" value="([^"]*)"', unescape(text)) == [
        ("a", run_id),
        ("b", run_id),
    ]
    assert re.findall("<option selected>([^<]*)", text) == ["g5.xlarge", "c5.2xlarge"]
    assert "Choose two sides" in text
