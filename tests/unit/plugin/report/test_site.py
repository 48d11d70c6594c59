"""What the site's pages say of runs, their cost, trends, and two sides side by side."""

import csv
import io
import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from rich.console import Console

from batchmark.analysis.samples import parameters_json
from batchmark.analysis.side_by_side import Chosen, side_by_side
from batchmark.changes.metric import Metric
from batchmark.changes.standing import standings
from batchmark.changes.suspects import LEAST_HISTORY, runs_missing
from batchmark.core.intervals import Interval
from batchmark.core.run import RunPlan
from batchmark.report.answer import summarize
from batchmark.report.gate import Gate
from batchmark.report.site import trends
from batchmark.report.site.compare import Comparison
from batchmark.report.site.costs import Month
from batchmark.report.site.drawings import series_svg
from batchmark.report.site.runs import RunLine
from batchmark.report.terminal.rows import render_comparison
from batchmark.report.words import row_label
from tests.builders.changed_series import build_history, build_key, build_own_key
from tests.builders.own_jobs import GPU, LOSS, THROUGHPUT, failed
from tests.builders.reports import report_of
from tests.builders.runs import GPU_ENVIRONMENT, PRICES, build_job, build_row, build_run
from tests.builders.runs import LAPTOP_ENVIRONMENT as LAPTOP

OLD = {THROUGHPUT: (120.0,), LOSS: (0.20,)}
NEW = {THROUGHPUT: (90.0,), LOSS: (0.10,)}


def comparison(new=NEW, old=OLD, repeats=6, cold=0, **fields):
    def chosen(name, told):
        jobs = [GPU.job(repeat=n, told=told, **fields) for n in range(1, repeats + 1)]
        jobs += [GPU.job(repeat=repeats + n, start="cold") for n in range(1, cold + 1)]
        return Chosen(build_run(*jobs).model_copy(update={"run_id": name}), "g5.xlarge", PRICES)

    first, second = chosen("new", new), chosen("old", old)
    return Comparison(first.label, second.label, side_by_side(first, second))


def on_terminal(found):
    console = Console(file=io.StringIO(), width=120)
    render_comparison(found, console)
    return console.file.getvalue()


def of_rows(found, *rows):
    """The comparison of these rows alone."""
    return Comparison("new", "old", [found.suites[0].model_copy(update={"rows": rows})])


@pytest.fixture(scope="module")
def found():
    return comparison()


def test_metrics_are_better_or_worse_in_their_unit_and_have_no_dollars(found):
    ((_, (seconds, rate, loss)),) = found.views()
    assert seconds.first.value.endswith(" s")
    assert (rate.first.value, rate.second.value) == ("90.00 images/s", "120.00 images/s")
    assert rate.name == "thumbnails size 64, start warm, throughput (images/s)"
    assert (rate.word, loss.word) == ("worse", "better")
    whole, *metrics = found.rows
    assert whole.gpu_usd
    for row in metrics:
        assert (row.gpu_usd, row.cheaper, row.efficiency.estimate) == (None, None, None)
    # Both sides share their last digit.
    found = comparison({THROUGHPUT: (1.9,)}, {THROUGHPUT: (1.0, 2.04, 3.1)})
    ((_, (_, rate)),) = found.views()
    assert (rate.first.value, rate.second.value) == ("1.900 images/s", "2.040 images/s")


def test_taken_along_and_on_a_terminal_a_metric_has_its_unit_and_no_seconds(found):
    lines = list(csv.DictReader(io.StringIO(found.as_csv())))
    whole, rate, _ = lines
    assert (whole["unit"], whole["first_value"]) == ("s", whole["first_seconds"])
    assert (rate["unit"], rate["first_seconds"], rate["verdict"]) == ("images/s", "", "worse")
    assert float(rate["first_value"]) == pytest.approx(90)
    assert float(rate["ratio"]) == pytest.approx(0.75)
    assert "| worse (\N{MINUS SIGN}25 %) |" in found.as_markdown()
    assert "120.00 images/s" in found.as_markdown()
    text = on_terminal(found)
    assert "images/s" in text
    assert "worse" in text


@pytest.mark.parametrize(("environment", "told"), [(GPU_ENVIRONMENT, True), (LAPTOP, False)])
def test_a_local_clouds_compute_environment_is_no_difference(environment, told):
    def chosen(name):
        own = environment.model_copy(update={"compute_environment": name})
        run = build_run(build_job("g5.xlarge", [build_row([0.1])], environment=own))
        return Chosen(run.model_copy(update={"run_id": name}), "g5.xlarge", PRICES)

    first, second = chosen("pool-3f2a"), chosen("pool-8ab0")
    found = Comparison("new", "old", side_by_side(first, second))
    names = [name for name, *_ in found.differences]
    assert ("compute environment" in names) is told


def test_sizes_stand_in_numeric_order_whatever_that_of_the_documents():
    sides = [
        Chosen(build_run(*GPU.jobs((1024, 64, 256), told={})), "g5.xlarge", PRICES)
        for _ in range(2)
    ]
    (found,) = side_by_side(*sides)
    assert [row.parameters["size"] for row in found.rows] == [64, 256, 1024]


def test_a_side_whose_check_failed_is_not_compared():
    found = comparison(check=failed())
    assert found.rows == []
    reasons = {row.reason for row in found.uncompared}
    assert all("6 of 6 jobs failed: its check ended with 1" in reason for reason in reasons)


def test_a_metric_that_is_far_worse_took_no_time():
    """Two jobs decide little, so it is only pointed out."""
    found = comparison({LOSS: (9.0, 20.0)}, {LOSS: (0.1, 0.2)}, repeats=2)
    remarks = " ".join(found.remarks)
    assert "new: thumbnails size 64, start warm, loss is worse by a factor of 97" in remarks


def test_with_metrics_the_ratio_is_no_speedup_and_both_kinds_are_counted_apart(found):
    assert found.answer == (
        "Of 3 rows, new is faster in 0, slower in 0, better in 1, worse in 1 of its metrics; "
        "no difference in 1."
    ).replace("new", found.first)
    assert found.ratio == "ratio"
    assert "throughput" in found.ratio_meaning
    assert "speedup" not in found.as_markdown().lower()
    assert "| ratio [95 %] |" in found.as_markdown()


def test_without_an_interval_none_is_spoken_of():
    few = comparison(repeats=3)
    assert not few.has_intervals
    assert "95 %" not in few.as_markdown() + on_terminal(few)


def test_figures_from_outside_ec2_are_no_instance_types(found):
    assert "EC2" not in " ".join(found.remarks)
    sides = {
        side: getattr(found.suites[0], side).model_copy(update={"environment": LAPTOP})
        for side in ("first", "second")
    }
    here = Comparison("new", "old", [found.suites[0].model_copy(update=sides)])
    *_, last = here.remarks
    model = LAPTOP.cpu_model
    assert last == f"Measured outside EC2, on {model}: no figure describes an instance type."


def test_a_ratios_interval_that_its_sides_do_not_explain_is_explained(found):
    explained = "A ratio's interval also allows for noise from job to job"
    assert sum(explained in remark for remark in found.remarks) == 1
    row = found.rows[0]
    exact = row.speedup.model_copy(
        update={"interval": Interval(low=row.speedup.value, high=row.speedup.value)}
    )
    narrow = of_rows(found, row.model_copy(update={"speedup": exact}))
    assert not any("interval also allows" in remark for remark in narrow.remarks)


def test_cold_starts_are_not_to_be_repeated():
    remedy = comparison(cold=1).remedy
    assert "2 rows have too few samples" in remedy
    assert "Check the trend of cold starts" in remedy
    assert "6 or more repeats" not in remedy


def test_what_is_not_comparable_is_not_counted_as_not_known_too(found):
    rows = [row.model_copy(update={"verdict": "undecided"}) for row in found.rows]
    rows[0] = rows[0].model_copy(update={"same_cpu": "EPYC"})
    rows[1:] = [
        row.model_copy(
            update={
                "noise": row.noise.model_copy(
                    update={"smallest_detectable_change": 9.0, "critical_change": change}
                )
            }
        )
        for row, change in zip(rows[1:], (0.3, 0.2), strict=True)
    ]
    barred = of_rows(found, *rows)
    assert barred.answer.endswith("; not known yet in 2; not comparable in 1.")
    assert "Not comparable in 1 row: both targets ran on the same CPU, EPYC." in barred.remedy
    assert "Not known yet in 2 rows" in barred.remedy
    assert f"by up to 30 % ({row_label(rows[1])})." in barred.remedy
    gate = Gate(barred, [], 0, "6 jobs", 5.0)
    assert "2 rows compared, 0 slower by 5 % or more, 0 missing, 2 undecided" in gate.last_line
    assert ", 1 not comparable, 0 missing" in gate.last_line
    assert "passed, but it decided nothing (measure more repeats, or" in gate.last_line
    most = max(1 / row.speedup.interval.low for row in rows[1:]) - 1
    assert f"2 undecided (slower by at most {100 * most:.0f} %), " in gate.last_line
    rows[2] = rows[2].model_copy(
        update={"speedup": rows[2].speedup.model_copy(update={"interval": None})}
    )
    gate = Gate(of_rows(found, *rows), [], 0, "6 jobs", 5.0)
    assert "2 undecided" in gate.last_line
    assert "at most" not in gate.last_line


@pytest.mark.parametrize(
    ("floor", "least", "step"),
    [
        (0.1, None, "measure 15 repeats per side to find nearly every difference of 20 %, or use"),
        (0.03, None, "measure 7 repeats per side to find nearly every difference of 10 %, or use"),
        (0.3, None, "use a quieter machine: to find nearly every difference of 20 % here takes"),
        (0.001, None, "measure more repeats, or use a quieter machine"),
        (0.03, 0.05, "measure 19 repeats per side to find nearly every difference of 5 %, or use"),
        (0.1, 0.05, "use a quieter machine: to find nearly every difference of 5 % here takes"),
        (0.03, 0.0, "measure 7 repeats per side to find nearly every difference of 10 %, or use"),
    ],
)
def test_the_next_step_says_how_many_repeats_would_find_which_difference(found, floor, least, step):
    row = found.rows[0]
    noise = row.noise.model_copy(update={"floor": floor, "smallest_detectable_change": 9.0})
    row = row.model_copy(update={"verdict": "undecided", "noise": noise})
    told = replace(of_rows(found, row), least_change=least).next_step
    assert told.startswith(step)
    assert "longer jobs" not in told
    seconds = row.cpu.median_seconds.model_copy(update={"value": 1.9})
    short = row.model_copy(update={"cpu": row.cpu.model_copy(update={"median_seconds": seconds})})
    assert "use a quieter machine or longer jobs" in of_rows(found, short).next_step


RATE = build_own_key(better="higher", metric="throughput", size=64, unit="images/s")


def trend_of(history):
    (trend,) = trends.trends([history], [], {}, standings=standings([history]))
    return trend


def test_a_metric_has_its_own_values_without_seconds_and_falls_where_it_falls():
    trend = trend_of(build_history(RATE, [1 / 120, 1 / 110, 1 / 96]))
    assert [round(run.value) for run in trend.runs] == [120, 110, 96]
    assert trend.latest.text == "96.0 images/s"
    assert trend.name == "thumbnails size 64, throughput (images/s)"
    assert trend.measures == "throughput, images/s"
    heights = [y for _, y in trend.points]
    assert heights == sorted(heights)  # from the top
    assert trend.before == "−16 % against the previous median, 115 images/s, not known yet"
    assert trend.span.startswith("96.0 images/s to 120 images/s; 3 runs")
    drawn = series_svg(trend)
    assert ">throughput, images/s</text>" in drawn
    assert not re.search(r">[\d.]+ m?s</text>", drawn)


def test_sizes_are_in_the_order_of_numbers_and_targets_in_their_one_order_cold_starts_last():
    keys = [
        build_key(target=target, parameters=parameters_json({"size": size, "start": start}))
        for target in ("g5.12xlarge", "g5.2xlarge")
        for size in (1024, 64, 256)
        for start in ("cold", "warm")
    ]
    histories = [build_history(key, [1.0, 1.1]) for key in keys]
    found = trends.trends(histories, [], {}, standings=standings(histories))
    assert [(*one.key.values.values(), one.key.target) for one in found] == [
        (size, start, target)
        for start in ("warm", "cold")
        for size in (64, 256, 1024)
        for target in ("g5.2xlarge", "g5.12xlarge")
    ]


def test_a_price_is_no_metric():
    trend = trend_of(build_history(build_key(workload=None), [1.0, 1.2], metric="price"))
    assert trend.latest.text == "$1.2 an hour"
    assert trend.measures == "price of the instance"
    assert trend.before == "$1 an hour before"


def test_an_own_job_needs_no_pair_of_a_gpu_and_a_cpu():
    left = trends.unpaired([], [("job-thumbnails", "queue-a"), ("blog", "c5.2xlarge")])
    assert [text for text in left if "job-thumbnails" in text] == []
    assert len(left) == 1


@pytest.mark.parametrize(
    ("runs", "key", "says"),
    [(3, RATE, True), (LEAST_HISTORY, RATE, False), (3, build_key(), False)],
)
def test_an_own_jobs_trends_say_how_many_more_runs_an_alert_needs(runs, key, says):
    trend = trend_of(build_history(key, [1.0] * runs))
    summary = trends.summary([trend], key.suite, Metric.TIME)
    assert summary.startswith(f"1 series over up to {runs} runs, none with an alert.")
    assert (runs_missing(3) in summary) == says


def test_a_median_speedup_leaves_out_cold_starts():
    def speedups(start, values):
        key = build_key(against="c5.2xlarge", parameters=f'{{"size":64,"start":"{start}"}}')
        return build_history(key, values, metric="speedup")

    found = [speedups("warm", [2.0, 2.0, 2.0]), speedups("cold", [9.0, float("nan"), 9.0])]
    (median,) = trends.median_speedups(found)
    assert list(median.values) == [2.0, 2.0, 2.0]
    assert median.key.parameters == "1 warm row"


NOW = datetime(2026, 12, 6, tzinfo=UTC)


@pytest.mark.parametrize(
    ("run_id", "dag_id", "suite", "name"),
    [
        (
            "scheduled__2026",
            "gpu_cpu_benchmark",
            "blog",
            "suite blog, 2026-12-06 00:00 UTC, scheduled",
        ),
        ("manual__2026", "own_job_benchmark", "job-a", "job a, 2026-12-06 00:00 UTC, triggered"),
        ("mine", "job_comparison", "", "Job comparison, 2026-12-06 00:00 UTC"),
        ("mine", "", "", "run, 2026-12-06 00:00 UTC"),
    ],
)
def test_a_run_is_named_by_what_when_and_why(run_id, dag_id, suite, name):
    assert RunLine(run_id, NOW, dag_id, suite, "success").name == name


def test_a_run_without_a_result_is_named_by_what_it_planned():
    plan = RunPlan(jobs=(build_job("c5.2xlarge", [], suite="job-convert").planned,))
    assert RunLine("mine", NOW, "own_job_benchmark", "", "failed").with_plan(plan).name == (
        "job convert, 2026-12-06 00:00 UTC"
    )


@pytest.mark.parametrize(
    ("worse", "since", "too_early", "changed"),
    [
        (None, None, False, "not judged: not compared with earlier runs"),
        (1, None, False, "1 change for the worse"),  # stored before its date was
        (1, NOW, False, "1 change for the worse, since 2026-12-06"),
        (2, NOW, True, "2 changes for the worse, the first since 2026-12-06"),
        (0, None, True, "not known yet: too few runs"),
        (0, None, False, "nothing worse"),
    ],
)
def test_a_line_counts_what_changed_for_the_worse(worse, since, too_early, changed):
    summary = summarize(report_of(build_run()))
    assert summary.worse is None  # nobody has looked
    told = {"worse": worse, "worse_since": since, "too_early": too_early}
    summary = summary.model_copy(update=told)
    assert RunLine("run", NOW, "", "blog", "success", summary).changed == changed


def test_targets_stand_in_their_one_order():
    found = Month(None, {"g5.12xlarge": 1.0, "unknown target": None, "g5.2xlarge": 0.0})
    assert found.targets == [
        ("g5.2xlarge", "no\N{NO-BREAK SPACE}dollars"),
        ("g5.12xlarge", "$1.00"),
        ("unknown target", "not known"),
    ]
