"""The report as a page, and what page and terminal table both say."""

import re
from datetime import timedelta

import pytest

from batchmark.analysis.cold_start import NO_INSTANCE
from batchmark.analysis.pairs.notes import WARNINGS
from batchmark.core import formatting
from batchmark.core.prices import SpotPrice
from batchmark.report import words
from batchmark.report.model import render_json
from batchmark_job.result.document import Device, parse_document
from tests.builders.pairs import two_jobs
from tests.builders.reports import NOON, NOTICE, Page, render_html, report_of, terminal
from tests.builders.runs import (
    CPU_ENVIRONMENT,
    GPU_ENVIRONMENT,
    LAPTOP_ENVIRONMENT,
    PRICES,
    build_full_job,
    build_job,
    build_row,
    build_run,
    noisy,
)
from tests.paths import DATA

RESULTS = DATA / "results"
SPOT_PRICES = PRICES.model_copy(
    update={
        "spot": {
            name: SpotPrice(zones={"us-east-1a": usd, "us-east-1b": 2 * usd}, changed_at=NOON)
            for name, usd in (("g5.xlarge", 0.4), ("c5.2xlarge", 0.1))
        }
    }
)


def test_targets_bought_in_different_ways_are_weighed_at_on_demand_and_paid_as_bought():
    """The GPU's job on Spot, two of the CPU's on Spot and one On-Demand after two reclaims."""

    def job(environment, repeat=1, option="spot", **fields):
        here = environment.model_copy(update={"availability_zone": "us-east-1a"})
        rows = [build_row((0.1 if here.gpu_count else 1.0,) * 8)]
        bought = {"purchase_option": option, "batch_seconds": 1800.0, **fields}
        return build_job(here.instance_type, rows, environment=here, repeat=repeat, **bought)

    cpu = [job(CPU_ENVIRONMENT, repeat=n) for n in (1, 2)]
    cpu.append(job(CPU_ENVIRONMENT, repeat=3, option="on_demand", earlier_seconds=900.0))
    report = report_of(build_run(job(GPU_ENVIRONMENT), *cpu), prices=SPOT_PRICES)
    (pair,) = report.pairs
    assert pair.rows[0].efficiency.estimate.value == pytest.approx(10 * 0.34 / 1.006)
    assert pair.rows[0].cpu_usd_per_million_calls.value == pytest.approx(1e6 / 3600 * 0.34)
    assert pair.spot_factor == pytest.approx((0.15 / 0.6) / (0.34 / 1.006))
    paid = [0.4 / 2, 0.1 / 2, 0.1 / 2, 0.34 * 0.75]
    assert [cost.usd for cost in pair.job_costs] == pytest.approx(paid)
    assert report.cost.usd == pytest.approx(sum(paid))
    page, text = " ".join(Page(render_html(report)).texts), terminal(report)
    for shown in (page, text):
        assert "g5.xlarge: 1.006 USD per hour, On-Demand; c5.2xlarge: 0.34 USD per hour" in shown
        assert "with both on Spot, efficiency is 0.74 times the one shown" in shown
        assert "container time of all attempts, each at its Spot or On-Demand price" in shown
        assert "Earlier attempts are charged like the last one" in shown
    assert "use the On-Demand prices of both targets, however their instances were bought" in page
    assert "Spot, us-east-1a" in page
    assert "0.6" in page
    assert "0.4 to 0.8, last change 2026-11-20 12:00 UTC" in page


def test_prices_of_another_month_are_called_stale(run_of_gpu):
    old = PRICES.model_copy(update={"as_of": (NOON - timedelta(days=31)).date()})
    report = report_of(run_of_gpu, prices=old)
    for shown in (" ".join(Page(render_html(report)).texts), terminal(report)):
        assert "These prices are 31 days old (from 2026-10-20)" in shown
    assert "These prices are" not in render_html(report_of(run_of_gpu))


def test_the_fallback_is_said_first_and_no_figure_is_called_a_gpus(report_of_laptop, report_of_gpu):
    assert terminal(report_of_laptop).splitlines()[0] == NOTICE
    page = Page(render_html(report_of_laptop, drawn=True))
    assert page.texts[0] == NOTICE
    assert "ran on the CPU" in terminal(report_of_laptop, width=80)
    html = render_html(report_of_gpu, drawn=True)
    for text in (terminal(report_of_gpu), html, render_json(report_of_gpu)):
        assert "ran on the CPU" not in text
    headings = [attributes.get("data-label") for attributes in page.attributes("td")]
    assert "g4dn.xlarge (ran on the CPU)" in headings
    assert "Crossovers" not in page.texts
    chart_cells = [one["class"] for one in page.attributes("td") if "chart" in one.get("class", "")]
    assert not any("faster" in name for name in chart_cells)


def test_the_page_is_self_contained_accessible_and_named_by_suite_and_targets(report_of_gpu):
    html = render_html(report_of_gpu, drawn=True)
    page = Page(html)
    page.check()
    assert page.attributes("html") == [{"lang": "en"}]
    assert "prefers-color-scheme: dark" in html
    assert page.attributes("meta")[1]["content"].startswith("width=device-width")
    heading = f"{report_of_gpu.pairs[0].suite}: g5.xlarge against c5.2xlarge"
    at = report_of_gpu.when
    assert f"<title>Batchmark: {heading}, {at}</title>" in html
    assert f"<h1>{heading}</h1>" in html
    suite = f"suite {report_of_gpu.pairs[0].suite}"
    assert f"report of {suite}, {at}, scheduled. Run id: {report_of_gpu.run_id}." in html


def test_every_row_leads_to_its_jobs_logs_and_documents(run_of_gpu, report_of_gpu):
    html = render_html(report_of_gpu)
    bodies = re.findall(r"<tbody.*?</tbody>", html, re.DOTALL)
    bodies = [body for body in bodies if "<details" in body]
    assert len(bodies) == 8  # seven compared, one not
    for body in bodies:
        for job in run_of_gpu.jobs:
            assert f"<code>{job.job_id}</code>" in body
            assert f'href="{job.log_url}"' in body
            assert f'href="{job.document_url}"' in body
            assert job.log_stream in body
            assert job.document_uri in body
    text = terminal(report_of_gpu)
    for number, job in enumerate(
        sorted(run_of_gpu.jobs, key=lambda job: job.planned.target[0] != "g"), 1
    ):
        assert (
            f"[{number}] {job.planned.target} repeat {job.planned.repeat}: job {job.job_id}" in text
        )
        assert job.log_url in text
        assert job.log_stream in text
        assert job.document_uri in text
    assert len(re.findall(r" 1-4 *$", text, re.MULTILINE)) == 7


def test_the_page_shows_what_was_measured_and_on_what(report_of_gpu):
    html = render_html(report_of_gpu)
    texts = " ".join(Page(html).texts)
    row = report_of_gpu.pairs[0].rows[2]
    for expected in (
        "scheduled__2026-11-20",
        report_of_gpu.when,
        str(formatting.factor(row.speedup)),
        str(formatting.time(row.gpu.median_seconds)),
        str(formatting.number(row.efficiency.estimate)),
        "n 60 in 2 jobs",
        "NVIDIA A10G",
        "580.95.05",
        "2.13.0+cu130",
        "Whole job, process",
        "c5.2xlarge: skipped: needs 19.2 GiB, 15.1 GiB are free",
        "Host EC2 (instance i-0f) terminated.",
        "As of 2026-11-20, 0 days before this report",
        "a table of the tests",
    ):
        assert expected in texts, expected
    assert f'{formatting.factor(row.speedup).value}</span> <span class="interval">' in html
    # A machine has no row without a value.
    (table,) = re.findall(r"<h3>Machines</h3>.*?</table>", html, re.DOTALL)
    rows = re.findall(r'<th role="rowheader".*?</tr>', table)
    assert rows
    assert not [row for row in rows if row.count("<span>none</span>") == 2]
    assert "(&#39;" not in table


def test_what_the_page_says_of_a_row_that_tells_all(report_of_full):
    html = render_html(report_of_full)
    texts = " ".join(Page(html).texts)
    small, row, *_ = report_of_full.pairs[0].rows
    flops = 2 * 5000**3
    for expected in (
        words.noise(row.noise)[1:],
        "size 5000, float32",
        "torch 2.13.0, 8 threads",
        "triton 3.5.0: slower:",
        "scipy 1.18.0: refused: it has no bfloat16",
        f"{formatting.percent(flops / row.gpu.median_seconds.value / 22e12)} of compute",
        "of the 22.0 Tflop/s measured in the same jobs",
        "arithmetic, by its flops per byte",
        "286.1 MiB",
        "stopped as precise enough in 3 jobs, 3 outliers, kept",
        "per joule",
        "CPU time stolen 0.2 %",
        "gpu_power 212 W (61 to 298)",
        words.calls_until_gpu_pays(small.calls_until_gpu_pays, "g5.xlarge"),
        "GPU target cheaper",
        words.cost_of_row(row.gpu_usd_per_million_calls, own_job=False),
        "g5.xlarge: 1.006 USD per hour, On-Demand",
        "device ready (CUDA start-up)",
        "one call: no interval, as it takes 6 jobs and there are 3",
    ):
        assert expected in texts, expected
    # Rivals are folded, and named for screen readers.
    assert html.count("<details>\n<summary>Rivals<") == 2 * 7
    assert "<details open" not in html


def test_what_is_known_of_the_figures_is_folded_while_there_is_no_verdict(
    report_of_laptop, report_of_gpu
):
    for report, folded in ((report_of_laptop, True), (report_of_gpu, False)):
        (section,) = re.findall(r'id="trust".*?</section>', render_html(report), re.DOTALL)
        assert ("<summary>What is known of the figures" in section) == folded
        assert "Noise from job to job" in section


def test_crossovers_and_cold_starts_are_the_same_on_page_and_terminal(report_of_full):
    gpu, _ = report_of_full.pairs[0].cold_starts
    for text in (" ".join(Page(render_html(report_of_full)).texts), terminal(report_of_full)):
        assert "none: g5.xlarge is already ahead at the smallest size and stays ahead" in text
        assert "matmul, float32" in text
        assert "size 1000, 5000, 10000" in text
        for step in gpu.steps:
            assert f"{step.name} {formatting.seconds(step.seconds)}" in text
        assert formatting.usd(gpu.usd) in text


def test_a_laptops_cold_start_has_no_wait_for_an_instance_and_no_bill():
    jobs = [
        build_full_job(target, [build_row((0.1,) * 8)], environment=LAPTOP_ENVIRONMENT)
        for target in ("g5.xlarge", "c5.2xlarge")
    ]
    report = report_of(build_run(*jobs))
    html = render_html(report)
    (section,) = re.findall(r"<h3>Cold start</h3>.*?<h3>", html, re.DOTALL)
    assert "from STARTING to the end of warm-up" in section
    assert "RUNNABLE" not in section
    assert "billed" not in section
    assert "Cost" not in section
    for text in (html, terminal(report)):
        assert text.count(NO_INSTANCE) == 1


def test_a_wide_spread_is_advised_on_once_and_told_in_each_rows_details():
    rows = [
        build_row(noisy(median, spread=0.3), parameters={"size": size})
        for size, median in ((1000, 0.01), (2000, 0.08))
    ]
    report = report_of(build_run(*two_jobs(rows, rows)))
    html = render_html(report)
    assert html.count("wide spread, with the middle half") == 4
    assert html.count("2 to read with care") == 2
    advice = f"In 2 of 2 rows {WARNINGS['unsettled']}."
    assert html.count(advice) == terminal(report).count(advice) == 1
    assert "wide spread" not in terminal(report)


def test_without_a_price_dollars_are_a_dash_with_one_reason(report_of_laptop):
    html = render_html(report_of_laptop)
    page = Page(html)
    assert "No cost in dollars: the jobs ran on a machine outside EC2." in page.texts
    assert "No cost is shown for" not in html
    assert "$" not in " ".join(page.texts)
    cells = re.findall(r'data-label="Efficiency">\s*<span>(.*?)</span>', html)
    assert cells == ["-"] * len(cells)
    assert cells


def test_a_document_of_the_first_version_still_makes_a_report():
    document = parse_document((RESULTS / "cpu-version-1.json").read_bytes())
    assert document.schema_version == 1
    on_gpu = {"actual_device": Device.CUDA, "environment": GPU_ENVIRONMENT}
    report = report_of(
        build_run(
            build_job("g5.xlarge", [], document=document.model_copy(update=on_gpu)),
            build_job("c5.2xlarge", [], document=document),
        )
    )
    page = " ".join(Page(render_html(report)).texts)
    assert "no job recorded when its device was ready" in page
    assert report.pairs[0].rows[0].gpu.roofline.compute_share is None
    assert report.pairs[0].rows[0].calls_until_gpu_pays is None
    assert "no job recorded when its device was ready" in terminal(report)


def test_hostile_strings_stay_text():
    evil = "<script>alert(1)</script>\x1b[31m[bold]"
    gpu = build_job(
        "g5.xlarge",
        [build_row(noisy(0.1), workload=evil, parameters={"<b>": '"><img src=x>'})],
        job_id="<i>job</i>",
        log_url="javascript:alert(1)",
        document_url="data:text/html,<script>alert(1)</script>",
        log_stream=evil,
    )
    cpu = build_job("c5.2xlarge", [build_row(noisy(1.0), workload="other")])
    report = report_of(build_run(gpu, cpu))
    page = Page(render_html(report))
    names = {name for name, _ in page.tags}
    assert not names & {"script", "img", "b", "i"}
    links = [attributes["href"] for attributes in page.attributes("a")]
    assert all(address.startswith(("https://", "#")) for address in links)
    assert any("<script>alert(1)</script>" in text for text in page.texts)
    text = terminal(report)
    assert "\x1b" not in text
    assert "[bold]" in text


@pytest.mark.parametrize(
    ("address", "is_link"),
    [
        ("https://console.example/logs#stream", True),
        ("http://127.0.0.1:5000/bucket/key", True),
        ("raw/manual__2026-11-20T10:00:00+00:00/g5.xlarge/job.1.json", True),
        ("javascript:alert(1)", False),
        ("JavaScript:alert(1)", False),
        (" javascript:alert(1)", False),
        ("java\nscript:alert(1)", False),
        ("\x01javascript:alert(1)", False),
        ("//elsewhere.example/x", False),
        ("\\\\elsewhere.example/x", False),
        ("file:///etc/passwd", False),
        ("", False),
    ],
)
def test_only_web_addresses_and_files_beside_the_page_are_links(address, is_link):
    rows = [build_row((0.1,))]
    jobs = two_jobs(rows, rows, log_url=address, log_stream="THE STREAM")
    html = render_html(report_of(build_run(*jobs)))
    assert bool(re.search(r"<a [^>]*>[^<]*THE STREAM</a>", html)) is is_link


def test_why_there_is_no_interval_is_said_once_for_all_rows():
    few = [build_row((0.1,) * size, parameters={"size": size}) for size in (1, 2)]
    html = render_html(report_of(build_run(*two_jobs(few, few))))
    assert html.count("A median of fewer than 6 samples has no interval.") == 1
    assert html.count('<span class="small">no interval</span>') == 4
    assert "not known yet</span>" in html


def test_an_empty_run_or_a_refused_pair_still_makes_a_report_without_figures():
    report = report_of(build_run())
    assert "Nothing to compare" in Page(render_html(report)).texts[0]
    assert terminal(report).startswith("Nothing to compare")
    assert report.cost.usd is None
    rows = [build_row(noisy(0.1))]
    changed = GPU_ENVIRONMENT.model_copy(update={"gpu_model": "Tesla T4"})
    other = build_job("g5.xlarge", rows, repeat=2, environment=changed)
    report = report_of(build_run(other, *two_jobs(rows, rows)))
    for text in (" ".join(Page(render_html(report)).texts), terminal(report)):
        assert "Not compared: the 2 jobs of g5.xlarge ran in different environments" in text
        assert "100 ms" not in text


@pytest.mark.parametrize("show", [render_html, terminal])
def test_the_sides_of_a_row_share_their_last_digit(show):
    sides = [build_row((1.899, 1.9, 1.901) * 4)], [build_row((1.0, 2.04, 3.1) * 4)]
    told = show(report_of(build_run(*two_jobs(*sides))))
    assert "1.900 s" in told
    assert "2.040 s" in told


def of_repeats(repeats):
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
    text = terminal(of_repeats(repeats), width)
    (line,) = [line for line in text.splitlines() if "Whole job, Batch" in line]
    assert ("1.99" in line, "not known" in line) == (known, not known)
    page = render_html(of_repeats(repeats))
    assert page.count("needs at least 6</span>") == (0 if known else 2)
