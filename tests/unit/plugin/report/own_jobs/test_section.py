"""The section of an own job: charts, tables, what was left out, its pairs' words."""

import html
import re

import pytest

from batchmark.core.suites import NO_DTYPE
from batchmark.core.version import Version
from batchmark.report.blocks import Charts, Table
from batchmark.report.own_jobs.charts import job_charts
from batchmark.report.own_jobs.sections import sections, tables
from batchmark.report.own_jobs.words import bad_lines, image, remarks, usd_per_unit, versions
from batchmark_job.result.own_job import BadLine
from tests.builders.own_job_studies import (
    CPU,
    GPU,
    TIMES,
    estimate,
    metric,
    on_laptop,
    own_job_report,
    own_jobs_of,
    side,
    study,
    telling,
    throughput,
    two_sides,
)
from tests.builders.own_jobs import CPU as OF_CPU
from tests.builders.own_jobs import GPU as OF_GPU
from tests.builders.own_jobs import failed
from tests.builders.reports import cells, render_html, report_of, terminal
from tests.builders.runs import build_run

EVIL = "<script>alert(1)</script>\x1b[31m{{ 7 * 7 }}"


def by_title(found):
    return {table.title: table for table in tables(found)}


def test_each_figure_stands_below_its_heading_and_what_nobody_told_is_a_dash():
    found = by_title(two_sides())
    first, second, *_ = cells(found["Time and price"])
    assert first == {
        "size": "64",
        "Target": GPU,
        "Time": "8.0 s [7.8, 8.2]",
        "Over the fastest": "-",
        "A job": "$0.00224 [0.00217, 0.00230]",
        "Verdict": "fastest",
        "Command alone": "7.50 s",
        "Waiting": "42.0 s",
        "Jobs": "6",
    }
    assert (second["Target"], second["Verdict"]) == (CPU, "cheapest")
    assert second["Over the fastest"] == "2.0× [1.9, 2.1]"
    told = cells(found["The cheapest within a deadline"])
    assert [(row["Deadline"], row["Cheapest"], row["A job"]) for row in told[:3]] == [
        ("from 8.24 s to 16.5 s", GPU, "$0.0022"),
        ("from 16.5 s on", CPU, "$0.0015"),
        ("from 10.3 s on", GPU, "$0.0028"),
    ]
    unknown = {"command_seconds": None, "waiting_seconds": None}
    found = study(side(GPU, {64: 8.0}, each=unknown), side(CPU, {64: 16.0}))
    row, _ = cells(by_title(found)["Time and price"])
    assert (row["Command alone"], row["Waiting"]) == ("-", "-")


def test_sides_stand_in_one_order_at_every_size_whoever_is_the_quickest():
    sides = (side(CPU, {64: 8.0, 256: 40.0}), side(GPU, {64: 16.0, 256: 20.0}))
    table = next(tables(study(*sides)))
    assert [(row["size"], row["Target"], row["Verdict"].split(",")[0]) for row in cells(table)] == [
        ("64", CPU, "fastest"),
        ("64", GPU, "slower"),
        ("256", CPU, "cheapest"),
        ("256", GPU, "fastest"),
    ]


def test_neither_of_two_sides_without_a_difference_is_slower_or_worse():
    told = ([throughput(600.0)], [throughput(606.0)])
    sides = [side(name, {64: 8.0}, metrics={64: of}) for name, of in zip(TIMES, told, strict=True)]
    by_dollars, by_metric, _ = tables(study(*sides, shown=(64,)))
    assert [row["Verdict"] for row in cells(by_dollars)] == ["no difference in time", "cheapest"]
    assert [row["Verdict"] for row in cells(by_metric)] == ["no difference"] * 2
    by_time = next(tables(study(*(on_laptop(name, {64: 8.0}) for name in TIMES), shown=(64,))))
    assert [row["Verdict"] for row in cells(by_time)] == ["no difference"] * 2


def test_an_axis_may_have_the_name_of_another_column_and_without_one_there_is_none():
    table = next(tables(two_sides(axis="jobs")))
    assert (table.headings[0], table.headings[-1]) == ("jobs", "Jobs")
    assert [str(cell) for cell in table.rows[0]][::8] == ["64", "6"]
    found = study(on_laptop(GPU, {None: 8.0}), on_laptop(CPU, {None: 16.0}), axis=None)
    (table,) = tables(found)
    assert table.title == "Time"
    assert table.wide
    assert table.headings[:2] == ["Target", "Time"]
    assert "A job" not in table.headings
    assert "On-Demand" not in table.caption
    assert "the whole instance's On-Demand price" in next(tables(two_sides())).caption


def test_metrics_are_in_their_units_with_dollars_that_can_be_read():
    found = telling([throughput(600.0, 4.66e-7)], [throughput(300.0, 3.15e-7)])
    first, second = cells(by_title(found)["Its metrics"])
    assert first == {
        "Metric": "throughput",
        "size": "64",
        "Target": GPU,
        "Value": "600 images/s [582, 618]",
        "The best is": "-",
        "Verdict": "best",
        "Dollars": "$0.466 per million images [0.452, 0.480]",
        "Values": "24 in 6 jobs",
    }
    assert (second["The best is"], second["Verdict"]) == ("2.0× [1.9, 2.1]", "worse")
    # Rivals share their last digit.
    found = telling([throughput(1.9, width=0.02)], [throughput(2.04, width=0.4)])
    assert [row["Value"] for row in cells(by_title(found)["Its metrics"])] == [
        "1.90 images/s [1.86, 1.94]",
        "2.04 images/s [1.22, 2.86]",
    ]


@pytest.mark.parametrize(
    ("usd", "unit", "told"),
    [
        (3.1e-7, "images/s", "$0.31 per million images"),
        (3.1e-10, "images/s", "$0.31 per billion images"),
        (0.31, "epochs/s", "$0.31 per epoch"),
        (1e-20, "flop/s", "$0.000000010 per trillion flop"),
    ],
)
def test_dollars_are_for_so_many_units_that_they_can_be_read(usd, unit, told):
    assert str(usd_per_unit(estimate(usd, jobs=1), unit, usd)) == told


def test_dollars_of_all_sides_are_for_the_same_number_of_units_and_a_loss_has_none():
    found = telling([throughput(600.0, 1.3e-5)], [throughput(600.0, 9e-6)])
    dollars = [row["Dollars"].split(" [")[0] for row in cells(by_title(found)["Its metrics"])]
    assert dollars == ["$13.0 per million images", "$9.0 per million images"]
    told = [metric("loss", 0.3, "nats", higher=False), throughput(600.0, 1e-6)]
    loss, *_ = cells(by_title(telling(told, told))["Its metrics"])
    assert (loss["Metric"], loss["Dollars"]) == ("loss", "-")


def test_charts_of_time_and_dollars_over_the_axis_and_of_both():
    found = {chart.title: chart.svg for chart in job_charts(two_sides())}
    assert [*found] == [
        "Time per job over size",
        "Dollars per job over size",
        "Dollars over time: lower left is better",
    ]
    assert (
        "g5.xlarge, 8.0 s [7.8, 8.2], $0.0022 [$0.0022, $0.0023] per job"
        in found["Time per job over size"]
    )
    both = found["Dollars over time: lower left is better"]
    assert "c5.2xlarge, size 64, 16.0 s [15.5, 16.5], $0.00151 [0.00147, 0.00156]" in both
    assert "c5.2xlarge, size 1024, 90.0 s [87.3, 92.7], $0.0085 [0.0082, 0.0088]" in both
    # Without an axis there is one, and without prices none.
    times = {GPU: {None: 8.0}, CPU: {None: 16.0}}
    (chart,) = job_charts(two_sides(times, axis=None))
    assert chart.title.startswith("Dollars over time")
    assert job_charts(study(*(on_laptop(name, of) for name, of in times.items()), axis=None)) == []


def test_bad_lines_are_told_with_number_text_and_reason_and_stay_text():
    bad = (
        BadLine(source="log", number=9, log_line=17, text=EVIL, problem=f"no JSON: {EVIL}"),
        BadLine(source="log", number=2, text="of an earlier release", problem="no JSON"),
        BadLine(source="file", number=3, text='{"metric": 1}', problem="metric: no text"),
    )
    gpu = side(GPU, {64: 8.0}, bad_lines=bad, bad_lines_left_out=5, metrics_left_out=12)
    report = own_job_report(study(gpu, side(CPU, {64: 16.0})))
    page, text = render_html(report), terminal(report)
    assert "<script" not in page
    assert html.escape(EVIL.replace("\x1b", "␛")) in page
    assert "5 lines more, not shown." in page
    assert "\x1b" not in text
    for shown in (html.unescape(page), text):
        assert "8 lines from g5.xlarge contained no metric" in shown
        assert "Line 17 of the log: no JSON: " in shown
        assert "Marked line 2 of the log: no JSON" in shown
        assert "Line 3 of the file: metric: no text" in shown
        assert "g5.xlarge: 12 lines of metrics omitted" in shown


@pytest.mark.parametrize(
    ("by_job", "told"),
    [
        ((2,), "2 lines from g5.xlarge contained no metric, in 1 job"),
        ((2, 2, 2), "6 lines from g5.xlarge contained no metric, in 3 jobs, 2 in each"),
        ((1, 4), "5 lines from g5.xlarge contained no metric, in 2 jobs, 1 to 4 in each"),
    ],
)
def test_lines_without_a_metric_are_counted_in_each_job(by_job, told):
    line = BadLine(source="log", number=1, text="no JSON", problem="no JSON")
    found = side(GPU, {64: 8.0}, bad_lines=(line,), bad_lines_by_job=by_job)
    assert bad_lines(found) == told


@pytest.mark.parametrize(("jobs", "has"), [(3, False), (6, True)])
def test_intervals_are_spoken_of_only_where_there_are_any(jobs, has):
    sides = [side(name, of, jobs=jobs) for name, of in TIMES.items()]
    (section,) = sections(own_job_report(study(*sides)))
    captions = [block.caption for block in section.blocks if isinstance(block, Table | Charts)]
    assert len(captions) == 3
    assert any("95 %" in text for text in captions) is has
    assert any("fewer than 6 jobs has no interval" in text for text in captions) is not has
    assert any("upper end of its interval" in text for text in captions) is has


def test_reasons_and_doubts_that_several_share_are_told_once_whether_jobs_count_or_not():
    problems = {64: "killed", 256: "killed"}
    cpu = side(CPU, {64: None, 256: None}, problems=problems)
    warnings = {"warnings": ("gather around two values",)}
    gpu = side(GPU, {64: 8.0, 256: 9.0}, each=warnings)
    cpu = cpu.model_copy(
        update={"figures": tuple(one.model_copy(update=warnings) for one in cpu.figures)}
    )
    assert [*remarks(study(gpu, cpu))] == [
        "Not compared: c5.2xlarge at size 64, 256: killed",
        "Caution: g5.xlarge at size 64, 256: gather around two values",
    ]
    doubts = {"doubts": ("2 of 6 jobs: its log is incomplete",)}
    gpu = side(GPU, {64: 8.0}, each=doubts)
    cpu = side(CPU, {64: None}, problems={64: "killed"}, each=doubts)
    both = "g5.xlarge at size 64; c5.2xlarge at size 64"
    care = f"Caution: {both}: 2 of 6 jobs: its log is incomplete"
    assert [*remarks(study(gpu, cpu))][-1] == care
    report = own_job_report(study(gpu, cpu))
    for shown in (html.unescape(render_html(report)), " ".join(terminal(report).split())):
        assert care in shown


def test_the_page_has_prices_image_jobs_machines_and_cold_starts():
    page = render_html(own_job_report(two_sides()))
    for text in (
        "Suite job-thumbnails. Image: thumbnails:3. g5.xlarge: 1.006 USD per hour, On-Demand; ",
        "size 4096, repeat 1, attempt 1",
        "https://logs.example/g5-xlarge-job-thumbnails-6",
        "Cold start</h3>",
        "NVIDIA A10G",
        "Which target runs thumbnails best?</h2>",
        "<title>Batchmark: thumbnails on g5.xlarge, c5.2xlarge, ",
    ):
        assert text in page, text


def test_a_job_that_ran_on_a_laptop_says_how_it_goes_on_to_aws():
    times = {GPU: {64: 8.0}, CPU: {64: 16.0}}
    here = study(*(on_laptop(name, of) for name, of in times.items()))
    told = "Change the image of own_jobs.thumbnails in your file to its full name there"
    for one, count in ((here, 1), (two_sides(), 0), (study(*here.sides, existing=True), 0)):
        report = own_job_report(one)
        for shown in (render_html(report), " ".join(terminal(report).split())):
            assert shown.count(told) == count
            assert len(re.findall(r"/job\.tfvars(?!\.)", shown)) == count


def with_image(side, name):
    there = side.target.environment.model_copy(update={"image": name})
    return side.model_copy(update={"target": side.target.model_copy(update={"environment": there})})


def test_an_image_that_did_not_run_and_versions_that_differ_are_told():
    sides = [with_image(on_laptop(name, {64: 8.0}), "thumbnails:3") for name in ("new", "baseline")]
    assert "thumbnails:3, which was not used here: its command ran as a process" in image(
        study(*sides)
    )
    assert image(two_sides()) == "Image: thumbnails:3"
    assert versions(study(*sides)) == ""
    told = sides[0].target.model_copy(update={"version": Version(commit="3f2a91c" + "0" * 33)})
    other = study(sides[0].model_copy(update={"target": told}), sides[1])
    assert versions(other) == "new: commit 3f2a91c; baseline: version not known"
    assert versions(other) in html.unescape(render_html(own_job_report(other)))


def test_the_steps_to_aws_know_the_file_and_a_full_name():
    name = "111122223333.dkr.ecr.us-east-1.amazonaws.com/thumbnails:3"
    side = with_image(on_laptop(CPU, {64: 16.0}), name)
    report = own_job_report(study(side)).model_copy(update={"jobs_file": "/my jobs/job.tfvars"})
    for shown in (html.unescape(render_html(report)), " ".join(terminal(report, 400).split())):
        assert "Your file has its full name already." in shown
        assert "-var-file='/my jobs/job.tfvars'" in shown


@pytest.fixture(scope="module")
def with_pairs():
    jobs = [job for target in (GPU, CPU) for job in own_jobs_of(target, TIMES[target])]
    return own_job_report(two_sides(), jobs=jobs)


def test_pairs_of_own_jobs_are_of_jobs_and_not_of_calls_and_rows_have_no_number_format(with_pairs):
    marked, on_terminal = render_html(with_pairs), terminal(with_pairs)
    page = html.unescape(re.sub(r"<[^>]+>", "", marked))
    for text in (
        "Median of whole jobs, from start to stop,",
        "$0.0022 [$0.0022, $0.0022] per job",
        "4 compared rows. All results that count were checked by exit code alone.",
        "registry.example/thumbnails 3",
    ):
        assert text in page, text
    for text in (
        "million calls",
        "warm call",
        ", first call",
        "One call",
        "Rivals",
        "correct rival",
        "Disturbed samples",
        "large matrix product",
        "Time and dollars over size",
    ):
        assert text not in page, text
    assert f"size 64, {NO_DTYPE}" not in marked
    assert f", {NO_DTYPE}" not in on_terminal
    assert "thumbnails (size 64, 256, 1024, 4096): time none" in on_terminal
    assert marked.count("<h3>Jobs</h3>") == marked.count("<h3>Machines</h3>") == 1


def test_jobs_are_counted_on_the_terminal(with_pairs):
    found = report_of(build_run(*(one for side in (OF_GPU, OF_CPU) for one in side.jobs())))
    for text in (terminal(with_pairs), terminal(found)):
        assert text.count("6 jobs; for logs and documents, see the page") == 2
        assert "log /aws" not in text
        assert text.count("g5.xlarge, from submission to the end of warm-up") <= 1
        assert "efficiency" in text
        assert " jobs  " not in text[text.index("g5.xlarge against c5.2xlarge") :]


def test_a_run_of_jobs_has_the_same_section_as_made_up_figures():
    jobs = [one.job(64, 1, start="cold") for one in (OF_GPU, OF_CPU)]
    jobs += [job for one in (OF_GPU, OF_CPU) for job in one.jobs((64, 256, 4096), 6)]
    report = report_of(build_run(*jobs, OF_CPU.job(4096, 7, check=failed())))
    page, text = render_html(report), terminal(report)
    for shown in (html.unescape(page), text):
        assert (
            "Not compared: c5.2xlarge at size 4096 on warm instances: 1 of 7 jobs failed" in shown
        )
        assert "Caution: c5.2xlarge at size 4096" not in shown
        assert "Its metrics, on cold instances" in shown
        assert "per million calls" not in shown
        assert "of ceiling" not in shown
    assert "Whole job" not in page


def test_few_jobs_are_told_once():
    report = report_of(build_run(*(job for one in (OF_GPU, OF_CPU) for job in one.jobs((64,), 3))))
    assert terminal(report).count("Use at least 6 repeats") == 1
    assert render_html(report).count("cover differences between jobs") == 0
