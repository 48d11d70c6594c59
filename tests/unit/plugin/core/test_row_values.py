"""A row's samples as people read them."""

import pytest

from batchmark.core import row_values
from batchmark.core.intervals import Estimate, Interval
from batchmark.core.row_values import ToldMetric

RATE = {"size": 64, "metric": "throughput", "unit": "images/s", "better": "higher"}
LOSS = {"metric": "loss", "unit": "", "better": "lower"}
SECONDS = {"size": 64}


def test_a_metric_is_told_by_its_parameters():
    assert ToldMetric.of(RATE) == ("throughput", "images/s", True)
    assert ToldMetric.of(LOSS) == ("loss", "", False)
    assert ToldMetric.of({"metric": "cosine", "size": 5}) is None


@pytest.mark.parametrize(
    ("parameters", "sample", "text"),
    [
        (RATE, 1 / 120, "120 images/s"),
        (RATE, 1 / 0.01234, "0.0123 images/s"),
        (LOSS, 0.25, "0.250"),
        (SECONDS, 0.25, "250 ms"),
    ],
)
def test_a_sample_in_words(parameters, sample, text):
    assert row_values.text(parameters, sample) == text


def test_a_figure_keeps_its_interval_the_right_way_round():
    sample = Estimate(value=1 / 120, interval=Interval(low=1 / 130, high=1 / 110))
    assert str(row_values.figure(RATE, sample)) == "120 images/s [110, 130]"
    assert str(row_values.figure(SECONDS, sample)).startswith("8.3 ms [")


def test_a_rate_falls_by_less_than_its_samples_grow_and_is_worse_where_a_time_is_slower():
    assert row_values.change(RATE, 0.25) == pytest.approx(-0.2)
    assert row_values.change(LOSS, 0.25) == row_values.change(SECONDS, 0.25) == 0.25
    assert row_values.word(RATE, "slower") == "worse"
    assert row_values.word(SECONDS, "slower") == "slower"
    assert row_values.word(LOSS, "noisier") == "noisier"
