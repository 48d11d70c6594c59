"""The section of a task that shares a device: its curves, tables and experiments."""

import html
import re

from batchmark.report.sharing import words
from batchmark.report.sharing.charts import sharing_charts
from batchmark.report.sharing.sections import curve_table
from batchmark_job.result.document import Implementation
from tests.builders.reports import render_html, terminal
from tests.builders.runs import LAPTOP_ENVIRONMENT
from tests.builders.sharing import curve_rows, replica, shared_row, unshared_row
from tests.unit.plugin.report.sharing.test_answer import SATURATING, report


def charts(*rows, **fields):
    (task,) = report(*rows, **fields).studies["sharing"]
    return {chart.title: html.unescape(chart.svg) for chart in sharing_charts(task)}


def test_each_amount_is_drawn_over_replicas_with_a_line_for_each_mode():
    found = charts(*curve_rows("time_slicing", SATURATING), *curve_rows("mps", SATURATING, seed=1))
    assert list(found) == [
        "Steps per second of all replicas",
        "95 of 100 steps of the slowest replica take at most",
        "Dollars for 1,000 steps",
    ]
    for svg in found.values():
        shown = set(re.findall(r"<text [^>]*>([^<]*)</text>", svg))
        assert {"one after the other", "time-slicing", "MPS", "replicas", "1", "8"} <= shown
        titles = re.findall(r"<title>([^<]*)</title>", svg)
        assert sum(title.startswith("MPS, ") for title in titles) == 4
    throughput, p95, _ = found.values()
    assert "knee at 4: time-slicing, MPS" in throughput
    assert "knee" not in p95
    assert re.search(r"<title>MPS, 8 replicas: 211\S* \[.*\] steps/s</title>", throughput)
    # A single number of replicas and unknown dollars are not drawn.
    assert charts() == {}
    found = charts(*curve_rows("time_slicing", SATURATING), environment=LAPTOP_ENVIRONMENT)
    assert "Dollars for 1,000 steps" not in found


def test_points_at_a_number_of_replicas_share_their_last_digit():
    noisy = curve_rows("mps", SATURATING, spread=0.2)
    throughput, *_ = charts(*curve_rows("time_slicing", SATURATING), *noisy).values()
    told = re.findall(r"<title>(?:time-slicing|MPS), 8 replicas: (\S+) \[", throughput)
    assert told == ["211", "211"]


def rows(task, mode="time_slicing"):
    """Of a mode's table, by the number of replicas."""
    (curve,) = [one for one in task.curves if one.mode == mode]
    table = curve_table(task, curve)
    cells = [dict(zip(table.headings, map(str, row), strict=True)) for row in table.rows]
    return {int(row["Replicas"]): row for row in cells}


def test_a_table_has_each_figure_below_its_heading():
    (task,) = report(*curve_rows("time_slicing", SATURATING)).studies["sharing"]
    cells = rows(task)[4]
    assert cells["Steps/s"].startswith("210.0 [")
    assert cells["Over one alone"].startswith("2.1")
    assert cells["1,000 steps"].startswith("$0.0013")
    assert cells["Slowest: p50, p95, p99"] == "19.0 ms, 28.6 ms, 38.1 ms"
    assert cells["Interference"] == "1.90×"
    assert cells["Fairness"] == "1.00, worst 1.00"
    assert (cells["Start-up"], cells["Memory"]) == ("4.00 s", "1.0 GiB")


def test_memory_is_of_the_gpu_with_its_contexts_where_that_is_known_and_else_torchs_or_none():
    device_memory = curve_rows("time_slicing", SATURATING, device_memory_bytes=2**33)
    (task,) = report(*device_memory).studies["sharing"]
    assert rows(task)[4]["Memory"] == "2.0 GiB"
    assert words.memory_note(task, task.curves[1]).endswith(", including their contexts.")
    (task,) = report(
        shared_row("time_slicing", 1, 100.0),
        shared_row("time_slicing", 2, 190.0, device_memory_bytes=2**33),
        shared_row("time_slicing", 4, 210.0, device_memory_bytes=0),
    ).studies["sharing"]
    in_turn, at_once = task.curves
    assert [row["Memory"] for row in rows(task).values()] == ["1.0 GiB", "4.0 GiB", "0.0 KiB"]
    assert words.memory_note(task, at_once).endswith(
        ", including their contexts; not known for replicas 1, where it is the peak memory that "
        "torch held for a replica, excluding its context."
    )
    assert words.memory_note(task, in_turn).startswith("Memory is the peak memory that torch held")


def test_the_code_that_replicas_ran_is_named_once():
    code = Implementation(name="torch, CUDA graph", version="2.13.0", threads=4)
    found = report(*curve_rows("time_slicing", SATURATING, implementation=code))
    for shown in (render_html(found), terminal(found)):
        assert shown.count("Code: torch 2.13.0 and torch, CUDA graph 2.13.0, 4 threads") == 1


def test_what_is_missing_starves_or_fails_is_shown():
    hungry = [replica((300,) * 3)] * 3 + [replica((30,) * 3)]
    crashed = [replica((10,) * 3, outcome="crashed")] + [replica((330,) * 3)] * 3
    page = terminal(
        report(
            *curve_rows("time_slicing", {1: 100.0, 2: 190.0}),
            shared_row("time_slicing", 4, 211.0, replicas=hungry),
            *(unshared_row("mps", count, "no control binary") for count in (2, 4)),
            shared_row("time_slicing", 4, 211.0, replicas=crashed, disturbance="crash", seed=1),
        )
    )
    assert "Not measured: MPS, replicas 2, 4: skipped: no control binary" in page
    assert "Starved: time-slicing, 4 replicas: replica 4 made 13 %" in page
    assert "The first of 4 replicas crashes, time-slicing" in page
    assert "the 3 others made 1." in page
    assert "as many steps as undisturbed" in page
