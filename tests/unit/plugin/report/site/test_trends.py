"""Trends of metrics that own jobs told: as people read them."""

import re

import pytest

from batchmark.analysis.samples import parameters_json
from batchmark.changes.metric import Metric
from batchmark.changes.standing import standings
from batchmark.changes.suspects import LEAST_HISTORY, runs_missing
from batchmark.report.site import trends as module
from batchmark.report.site.drawings import series_svg
from tests.builders.changed_series import build_history, build_key, build_own_key

RATE = build_own_key(better="higher", metric="throughput", size=64, unit="images/s")


def trend_of(history):
    (trend,) = module.trends([history], [], {}, standings=standings([history]))
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
    found = module.trends(histories, [], {}, standings=standings(histories))
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
    left = module.unpaired([], [("job-thumbnails", "queue-a"), ("blog", "c5.2xlarge")])
    assert [text for text in left if "job-thumbnails" in text] == []
    assert len(left) == 1


@pytest.mark.parametrize(
    ("runs", "key", "says"),
    [(3, RATE, True), (LEAST_HISTORY, RATE, False), (3, build_key(), False)],
)
def test_an_own_jobs_trends_say_how_many_more_runs_an_alert_needs(runs, key, says):
    trend = trend_of(build_history(key, [1.0] * runs))
    summary = module.summary([trend], key.suite, Metric.TIME)
    assert summary.startswith(f"1 series over up to {runs} runs, none with an alert.")
    assert (runs_missing(3) in summary) == says


def test_a_median_speedup_leaves_out_cold_starts():
    def speedups(start, values):
        key = build_key(against="c5.2xlarge", parameters=f'{{"size":64,"start":"{start}"}}')
        return build_history(key, values, metric="speedup")

    found = [speedups("warm", [2.0, 2.0, 2.0]), speedups("cold", [9.0, float("nan"), 9.0])]
    (median,) = module.median_speedups(found)
    assert list(median.values) == [2.0, 2.0, 2.0]
    assert median.key.parameters == "1 warm row"
