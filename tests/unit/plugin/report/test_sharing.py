"""What a run says of tasks that share a device: the answer, and the section's curves and tables."""

import html
import re

import pytest

from batchmark.report.answer import first_screen, summarize
from batchmark.report.sharing import words
from batchmark.report.sharing.charts import sharing_charts
from batchmark.report.sharing.sections import curve_table
from batchmark_job.result.document import Implementation
from tests.builders.reports import answers, cells, render_html, report_of, terminal
from tests.builders.runs import (
    GPU_ENVIRONMENT,
    LAPTOP_ENVIRONMENT,
    ON_LAPTOP,
    PRICES,
    SIMULATED,
    build_run,
)
from tests.builders.sharing import curve_rows, replica, shared_row, sharing_job, unshared_row

GPU, CPU = "g5.xlarge", "c5.2xlarge"
ALONE = shared_row("exclusive", 1, 100.0)
SATURATING = {1: 100.0, 2: 190.0, 4: 210.0, 8: 211.0}
TASK = "cnn_training_step batch 32, float32, on g5.xlarge"


def report(*rows, target=GPU, **fields):
    return report_of(build_run(sharing_job(target, [ALONE, *rows], **fields)))


def saturating(**fields):
    return curve_rows("time_slicing", SATURATING, **fields)


def test_the_first_screen_is_about_sharing_with_its_figures():
    found = report(*saturating())
    (answer,) = answers(found)
    assert answer.verdict == "Up to 4 replicas"
    assert re.match(
        r"2\.1\d*× \[2\.\d+, 2\.\d+\] the throughput of one replica alone, at 0\.4\d* \[.*\] times "
        r"the price per step \(\$0\.0013\d* for 1,000 steps, against \$0\.0027\d*\): " + TASK,
        answer.sentence,
    )
    assert "NVIDIA A10G, with time-slicing. 95 of 100 steps" in answer.sentence
    assert "then take 28.6 ms or less, compared with 15.0 ms alone." in answer.sentence
    assert answer.cautions == []
    page, text = render_html(found), terminal(found)
    for shown in (page, text):
        assert "How many of these tasks can share the device?" in shown
        assert "Does the GPU pay off?" not in shown
        assert "Nothing to compare" not in shown
    assert "<title>Batchmark: sharing: g5.xlarge," in page
    assert page.index("Up to 4 replicas") < page.index("What did it cost?")
    # The list of runs has the same answer.
    summary = summarize(found)
    assert (summary.verdict, summary.suites) == ("Up to 4 replicas", ("sharing",))
    assert (summary.gpus, summary.cpus) == ((GPU,), ())
    assert "the throughput of one replica alone" in summary.sentence
    assert summary.usd == pytest.approx(40 * 1.006 / 3600)


def test_a_curve_that_still_rises_says_at_least():
    rising = curve_rows("mps", {1: 100.0, 2: 199.0, 5: 490.0})
    (answer,) = answers(report(*rising))
    assert answer.verdict == "At least 5 replicas"
    (caution,) = answer.cautions
    assert caution.endswith("at the largest replica count measured: measure more replicas.")
    full = [replica()] * 9 + [replica(outcome="out_of_memory", reason="CUDA out of memory")]
    too_many = shared_row("mps", 10, 490.0, replicas=full)
    (answer,) = answers(report(*rising, too_many))
    assert answer.cautions == [
        "The curve is still rising at the largest replica count measured.",
        "10 replicas: replica 10 ran out of memory (CUDA out of memory).",
    ]


def test_sharing_that_adds_nothing_does_not_pay_and_what_noise_hides_is_not_known():
    flat = dict.fromkeys((1, 2, 4), 100.0)
    (answer,) = answers(report(*curve_rows("time_slicing", flat | {2: 80.0, 4: 60.0})))
    assert answer.verdict == "Sharing does not pay"
    assert "the throughput of one task alone, with 2 replicas" in answer.sentence
    (answer,) = answers(report(*curve_rows("time_slicing", flat, spread=0.2)))
    assert answer.verdict == "Not known"
    assert "anything from 1 to 4 or more" in answer.sentence


def test_starved_replicas_and_equal_modes_are_told_with_the_answer():
    hungry = [replica((300,) * 3)] * 3 + [replica((30,) * 3)]
    rows = [
        *curve_rows("mps", {1: 99.0, 2: 190.0, 8: 211.0}),
        shared_row("mps", 4, 211.0, replicas=hungry),
        *saturating(seed=1),
    ]
    (answer,) = answers(report(*rows))
    equal, starved = answer.cautions
    assert equal == "Equally good, judging by the intervals: time-slicing."
    assert starved.startswith(
        "At 4 replicas, replica 4 made 13 % of the mean number of steps (job "
    )


@pytest.mark.parametrize(
    ("target", "changes", "whose"),
    [
        (CPU, ON_LAPTOP, "c5.2xlarge: the replicas were processes that share CPU cores"),
        (GPU, ON_LAPTOP, "g5.xlarge (ran on the CPU): the replicas were processes that share CPU "),
        (GPU, SIMULATED, "g5.xlarge: its GPU was simulated"),
    ],
)
def test_what_is_no_gpus_figure_says_so_wherever_it_is_shown(target, changes, whose):
    found = report(*saturating(), target=target, **changes)
    (answer,) = answers(found)
    (said,) = [caution for caution in answer.cautions if caution.startswith(whose)]
    assert "None of the figures comes from a " in said
    for shown in (render_html(found, drawn=True).replace("&#39;", "'"), terminal(found)):
        assert said in shown
    if "CPU" in said:
        assert "time-slicing" not in terminal(found)


def test_a_part_of_a_gpu_is_no_whole_one():
    found = report(*saturating(mig_enabled=True))
    said = "g5.xlarge: the GPU is partitioned by MIG. Figures are for one of its partitions."
    assert answers(found)[0].cautions == [said]
    for shown in (render_html(found), terminal(found)):
        assert said in shown


def test_gpus_that_are_paid_for_and_idle_are_told():
    four = GPU_ENVIRONMENT.model_copy(update={"gpu_count": 4})
    found = report(*saturating(), environment=four)
    said = "g5.xlarge has 4 GPUs, and dollars are for all of them: 3 did nothing."
    assert answers(found)[0].cautions == [said]
    on_two = [replica(device_uuid="GPU-1"), replica(device_uuid="GPU-2")] * 2
    found = report(shared_row("time_slicing", 4, 390.0, replicas=on_two), environment=four)
    assert "for all of them: 2 did nothing." in " ".join(answers(found)[0].cautions)
    elsewhere = four.model_copy(update={"instance_type": None})
    found = report(*saturating(), environment=elsewhere)
    assert "did nothing" not in terminal(found)


def test_outside_ec2_there_are_shares_of_a_price_and_no_dollars():
    found = report(*saturating(), target=CPU, environment=LAPTOP_ENVIRONMENT)
    text = terminal(found)
    assert "times the price per step: cnn_training_step" in text
    assert "No cost in dollars: the jobs ran on a machine outside EC2." in text
    assert "Prices:" not in text


def test_targets_with_different_answers_are_told_one_by_one():
    flat = curve_rows("time_slicing", dict.fromkeys((1, 2, 4), 100.0))
    jobs = sharing_job(GPU, [ALONE, *saturating()]), sharing_job("g6.xlarge", [ALONE, *flat])
    summary = summarize(report_of(build_run(*jobs)))
    assert summary.verdict == "It depends"
    assert "Up to 4 replicas: " in summary.sentence
    assert "Sharing does not pay: " in summary.sentence


def test_pods_on_several_gpus_gain_by_more_gpus_and_say_so():
    def pods(count, throughput):
        uuids = [f"GPU-{number % 4}" for number in range(count)]
        replicas = [replica(device_uuid=uuid) for uuid in uuids]
        return shared_row("time_slicing", count, throughput, replicas=replicas, form="pods")

    rows = [pods(1, 100.0), pods(8, 390.0), pods(20, 391.0)]
    (answer,) = answers(report_of(build_run(sharing_job(GPU, rows))))
    assert answer.verdict == "Up to 8 replicas"
    assert "with time-slicing as pods." in answer.sentence
    assert answer.cautions == ["They ran on 4 GPUs: the gain includes what the extra GPUs add."]


def test_the_cheapest_of_several_targets_is_named_with_what_can_not_be_told_apart():
    rows = [ALONE, *saturating()]
    g6 = GPU_ENVIRONMENT.model_copy(update={"instance_type": "g6.xlarge"})
    jobs = sharing_job(GPU, rows), sharing_job("g6.xlarge", rows, environment=g6)
    found = report_of(build_run(*jobs))
    lines = {line.question: line.answer for line in first_screen(found).lines}
    assert lines["Where is it cheapest?"].startswith(
        "cnn_training_step batch 32, float32: g6.xlarge with 8 replicas, time-slicing, $0.0010"
    )
    assert "as cheap" not in lines["Where is it cheapest?"]
    assert f"Where is it cheapest? {lines['Where is it cheapest?']}" in terminal(found)
    table = PRICES.model_copy(update={"on_demand": dict.fromkeys((GPU, "g6.xlarge"), 1.0)})
    same = terminal(report_of(build_run(*jobs), prices=table))
    assert "equally cheap, by the intervals: g6.xlarge with 8 replicas, time-slicing" in same


def test_beside_a_cpu_target_both_questions_are_answered_and_a_crash_is_no_row():
    crash = shared_row(
        "time_slicing", 4, 200.0, replicas=[replica()] * 4, disturbance="crash", seed=3
    )
    jobs = [sharing_job(target, [ALONE, *saturating(), crash]) for target in (GPU, CPU)]
    found = report_of(build_run(*jobs))
    assert [one.verdict for one in answers(found)] == ["Up to 4 replicas"] * 2
    (pair,) = found.pairs
    assert (len(pair.rows), pair.uncompared, pair.crossovers) == (5, (), ())
    assert {row.calls_until_gpu_pays for row in pair.rows} == {None}
    text, page = terminal(found), render_html(found)
    assert text.index("can share the device?") < text.index("Does the GPU pay off? ")
    assert page.index("can share the device?") < page.index("Does the GPU pay off?")
    assert "batch 32, mode time_slicing, replicas 8, float32" in text
    assert "over size</h2>" not in page


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
    # Points at a number of replicas share their last digit.
    noisy = curve_rows("mps", SATURATING, spread=0.2)
    throughput, *_ = charts(*curve_rows("time_slicing", SATURATING), *noisy).values()
    told = re.findall(r"<title>(?:time-slicing|MPS), 8 replicas: (\S+) \[", throughput)
    assert told == ["211", "211"]
    # A single number of replicas and unknown dollars are not drawn.
    assert charts() == {}
    found = charts(*curve_rows("time_slicing", SATURATING), environment=LAPTOP_ENVIRONMENT)
    assert "Dollars for 1,000 steps" not in found


def rows(task, mode="time_slicing"):
    """Of a mode's table, by the number of replicas."""
    (curve,) = [one for one in task.curves if one.mode == mode]
    return {int(row["Replicas"]): row for row in cells(curve_table(task, curve))}


def test_a_table_has_each_figure_below_its_heading():
    (task,) = report(*curve_rows("time_slicing", SATURATING)).studies["sharing"]
    row = rows(task)[4]
    assert row["Steps/s"].startswith("210.0 [")
    assert row["Over one alone"].startswith("2.1")
    assert row["1,000 steps"].startswith("$0.0013")
    assert row["Slowest: p50, p95, p99"] == "19.0 ms, 28.6 ms, 38.1 ms"
    assert row["Interference"] == "1.90×"
    assert row["Fairness"] == "1.00, worst 1.00"
    assert (row["Start-up"], row["Memory"]) == ("4.00 s", "1.0 GiB")


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
