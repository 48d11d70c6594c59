"""Trends of metrics that own jobs told: as people read them."""

from batchmark.report.site import trends as module
from tests.builders.changed_series import build_history, build_key

RATE = build_key(
    suite="job-thumbnails",
    workload="thumbnails",
    dtype="none",
    parameters='{"better":"higher","metric":"throughput","size":64,"unit":"images/s"}',
)


def test_a_metric_has_its_own_values_and_falls_where_it_falls():
    (trend,) = module.trends([build_history(RATE, [1 / 120, 1 / 110, 1 / 96])], [], {})
    assert [round(run.value) for run in trend.runs] == [120, 110, 96]
    assert trend.latest.text == "96.0 images/s"
    assert trend.name == "thumbnails size 64, throughput (images/s)"
    heights = [y for _, y in trend.points]
    assert heights == sorted(heights)  # from the top
    assert trend.before == "115 images/s before"
    assert trend.span.startswith("96.0 images/s to 120 images/s; 3 runs")


def test_a_price_is_no_metric():
    price = build_history(build_key(workload=None), [1.0], metric="price")
    (trend,) = module.trends([price], [], {})
    assert trend.latest.text == "$1 an hour"
