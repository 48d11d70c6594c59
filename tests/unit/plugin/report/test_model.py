"""The report's figures, as JSON and as terminal table."""

import json

import pytest

from batchmark.core import formatting
from batchmark.report.model import Report, render_json
from batchmark_job.result.sharing_options import SharingOptions
from tests.builders.reports import NOTICE, render_html, report_of, terminal
from tests.builders.runs import GPU_ENVIRONMENT, build_job, build_lost, build_row, build_run


def test_json_carries_version_and_notices_first_and_survives(report_of_gpu, report_of_laptop):
    for report in (report_of_gpu, report_of_laptop):
        text = render_json(report)
        assert Report.model_validate_json(text) == report
        assert list(json.loads(text))[:2] == ["report_version", "notices"]
    document = json.loads(render_json(report_of_laptop))
    assert document["report_version"] == 7
    assert document["notices"] == [NOTICE]
    assert document["pairs"][0]["cpu_fallback"] is True
    assert document["pairs"][0]["gpu"]["actual_device"] == "cpu"
    assert document["pairs"][0]["gpu_price"]["measured_on_it"] is False
    (pair,) = json.loads(render_json(report_of_gpu))["pairs"]
    starts = [start["target"] for start in pair["ledgers"]]  # the published name
    assert starts == ["g5.xlarge", "c5.2xlarge"]


def test_a_job_in_two_pairs_is_paid_once():
    cpu = build_job("c5.2xlarge", [build_row((1.0,))], batch_seconds=3600.0)
    gpus = []
    for name in ("g5.xlarge", "g6.xlarge"):
        own = GPU_ENVIRONMENT.model_copy(update={"instance_type": name})
        rows = [build_row((0.1,))]
        gpus.append(build_job(name, rows, batch_seconds=3600.0, environment=own))
    report = report_of(build_run(cpu, *gpus))
    assert len(report.pairs) == 2
    assert report.cost.usd == pytest.approx(0.34 + 1.006 + 0.8048)
    assert set(report.prices.on_demand) == {"c5.2xlarge", "g5.xlarge", "g6.xlarge"}


def test_summary_counts_only_what_is_decided(report_of_gpu, report_of_laptop):
    assert report_of_gpu.pairs[0].summary == (
        "Of 7 rows, g5.xlarge is faster in 6, c5.2xlarge in 0 (1 not known yet); "
        "g5.xlarge is cheaper in 5, c5.2xlarge in 1 (1 not known yet)."
    )
    assert report_of_laptop.pairs[0].summary.startswith("Both targets ran on a CPU")


def test_a_lost_job_is_named_with_its_number_of_replicas():
    plan = SharingOptions(form="jobs", modes=("mps",), replicas=(5,), task="matmul", axes={})
    lost = build_lost("g5.xlarge", "killed", suite="sharing", sharing=plan)
    report = report_of(build_run(build_job("c5.2xlarge", [build_row((1.0,))]), lost=[lost]))
    line = next(line for line in terminal(report).splitlines() if "sharing-of-5" in line)
    assert line.split()[:5] == ["g5.xlarge", "sharing-of-5", "1", "none", "killed"]
    assert "<span>sharing-of-5</span>" in render_html(report)


def test_the_terminal_table_shows_the_same(report_of_gpu):
    text = terminal(report_of_gpu)
    row = report_of_gpu.pairs[0].rows[2]
    for expected in (
        *formatting.factor(row.speedup),
        *formatting.time(row.cpu.median_seconds),
        "size 10000, float32",
        formatting.noise(row.noise.smallest_detectable_change),
        "Whole job, Batch",
        "(median of 2 jobs)",
        "Not compared: matmul size 40000, float32: c5.2xlarge: skipped: needs 19.2 GiB",
        "Host EC2",
        "As of 2026-11-20",
        "What did it cost? $0.093",
    ):
        assert expected in text, expected


def test_the_terminal_says_each_rows_verdict_in_words(report_of_gpu, report_of_laptop):
    lines = terminal(report_of_gpu, width=300).splitlines()
    words = {
        ("gpu_target_faster", "gpu_target_cheaper"): "faster, cheaper",
        ("gpu_target_faster", "undecided"): "faster",
        ("undecided", "cpu_target_cheaper"): "dearer",
    }
    said = {
        words[row.verdict, row.cheaper]: line
        for row in report_of_gpu.pairs[0].rows
        for line in lines
        if formatting.parameters(row.parameters) in line and row.workload in line
    }
    assert set(said) == set(words.values())
    assert all(word in line for word, line in said.items())
    on_cpu = terminal(report_of_laptop)
    assert "not known yet" not in on_cpu[on_cpu.index("median [95") :]


def rows_of(text):
    """The table of a pair's rows, to its last line."""
    return text[text.index("median [95") : text.index("\n", text.index("Whole job, Batch"))]


@pytest.mark.parametrize("width", [80, 100, 140, 160, 200])
def test_the_terminal_table_keeps_its_figures_whole(report_of_gpu, width):
    table = rows_of(terminal(report_of_gpu, width)).splitlines()
    assert max(map(len, table)) <= width
    for row in report_of_gpu.pairs[0].rows:
        for figure in (formatting.factor(row.speedup), formatting.time(row.gpu.median_seconds)):
            parts = figure if width >= 100 else (figure.value, *figure.interval.split())
            assert all(any(part in line for line in table) for part in parts), figure


@pytest.mark.parametrize("width", [100, 140, 160])
def test_a_table_for_a_log_wraps_no_cell(report_of_full, width):
    table = rows_of(terminal(report_of_full, width))
    assert len(table.splitlines()) > 7
    assert table.count("[") == table.count("]")
    for line in table.splitlines():
        assert line.count("[") == line.count("]"), line
    assert "…" not in table
