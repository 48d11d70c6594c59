"""Figures, units and samples as reports print them."""

from itertools import pairwise

import pytest
from hypothesis import strategies as st

from batchmark.core import formatting, row_values
from batchmark.core.intervals import Estimate, Interval
from batchmark.core.row_values import ToldMetric
from tests.builders.hostile import fuzz
from tests.builders.noise import quick_and_long


def estimate(value, low=None, high=None):
    return Estimate(value=value, interval=None if low is None else Interval(low=low, high=high))


@pytest.mark.parametrize(
    ("given", "value", "interval"),
    [
        (estimate(36.47, 35.2, 38.1), "36×", "[35, 38]"),
        (estimate(36.47, 36.41, 36.53), "36.47×", "[36.41, 36.53]"),
        (estimate(36.47, 36.4699, 36.4701), "36.47×", "[36.47, 36.47]"),
        (estimate(0.0214, 0.0206, 0.0221), "0.0214×", "[0.0206, 0.0221]"),
        (estimate(50.0, 33.3, 101.0), "50×", "[33, 101]"),
        (estimate(3.0, 0.4, 12.0), "3.0×", "[0.4, 12.0]"),
        (estimate(2.0, 2.0, 2.0), "2.000×", "[2.000, 2.000]"),
        (estimate(1234.0, 1100.0, 1400.0), "1200×", "[1100, 1400]"),
        (estimate(1.2, 1.004, 1.5), "1.200×", "[1.004, 1.500]"),
        (estimate(0.99, 0.97, 0.9996), "0.9900×", "[0.9700, 0.9996]"),
        (estimate(1.0, 0.9, 1.1), "1.0×", "[0.9, 1.1]"),
        (estimate(1.14, 1.06, 1.27), "1.14×", "[1.06, 1.27]"),  # 1.1 of [1.1, 1.3]
        (estimate(0.996, 0.92, 1.0), "0.996×", "[0.920, 1.000]"),
        (estimate(8.4, 8.4, 25.0), "8.4×", "[8.4, 25.0]"),
        (estimate(104.0, 95.0, 305.0), "104×", "[95, 305]"),
        (estimate(36.47), "36×", ""),
    ],
)
def test_figures_carry_no_more_digits_than_their_interval(given, value, interval):
    assert formatting.factor(given) == (value, interval)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (estimate(2.345, 2.31, 2.38), "2.35 s [2.31, 2.38]"),
        (estimate(0.0129, 0.01285, 0.01301), "12.90 ms [12.85, 13.01]"),
        (estimate(0.000214, 0.000210, 0.000219), "214 µs [210, 219]"),
        (estimate(3e-9), "3.00 ns"),
        (estimate(0.95 * 1e-3), "0.950 ms"),
        (estimate(0.00098, 0.0009, 0.0011), "0.98 ms [0.90, 1.10]"),
        (estimate(204.0), "204 s"),
    ],
)
def test_times_come_in_the_unit_that_suits_them(given, text):
    assert str(formatting.time(given)) == text


SHARP, NOISY = estimate(1.9, 1.85, 1.95), estimate(2.04, 1.0, 3.1)


@pytest.mark.parametrize(
    ("form", "figures", "texts"),
    [
        (formatting.number, [SHARP, NOISY], ["1.90 [1.85, 1.95]", "2.04 [1.00, 3.10]"]),
        (formatting.factor, [NOISY, SHARP], ["2.04× [1.00, 3.10]", "1.90× [1.85, 1.95]"]),
        (formatting.usd_figure, [SHARP, NOISY], ["$1.90 [1.85, 1.95]", "$2.04 [1.00, 3.10]"]),
        # In seconds: units differ, the last digit does not.
        (
            formatting.time,
            [estimate(0.00094, 0.000935, 0.000945), estimate(0.00105, 0.0008, 0.0013)],
            ["940 µs [935, 945]", "1.050 ms [0.800, 1.300]"],
        ),
        # What is tenfold can't be mistaken.
        (
            formatting.time,
            [estimate(0.0019, 0.00185, 0.00195), estimate(0.2, 0.1, 0.3)],
            ["1.90 ms [1.85, 1.95]", "200 ms [100, 300]"],
        ),
        (formatting.number, [NOISY, None], ["2.0 [1.0, 3.1]"]),
    ],
)
def test_figures_beside_each_other_share_their_last_digit(form, figures, texts):
    assert [str(form(one, figures)) for one in figures if one] == texts


def amount(digits, power, below, above):
    value = digits * 10.0**power
    return estimate(value, value * (1 - below), value * (1 + above)) if below else estimate(value)


AMOUNTS = st.builds(
    amount,
    st.floats(1, 9.999),
    st.integers(-8, 4),
    st.sampled_from([0.0, 1e-6, 0.004, 0.05, 0.4, 0.95]),
    st.sampled_from([1e-6, 0.01, 0.3, 4.0]),
)
UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}


@quick_and_long("examples", [60], [20_000])
def test_rounding_turns_no_order_around(examples):
    def show(figures):
        figures.sort(key=lambda one: one.value)
        numbers = [formatting.number(one, figures).value for one in figures]
        times = [formatting.time(one, figures).value.split() for one in figures]
        seconds = [float(number) * UNITS[unit] for number, unit in times]
        assert [float(number) for number in numbers] == sorted(map(float, numbers))
        assert all(one <= other * (1 + 1e-9) for one, other in pairwise(seconds))
        for number in (*numbers, *(number for number, _ in times)):
            assert len(number.replace(".", "").lstrip("0")) >= 2

    fuzz(examples, show, st.lists(AMOUNTS, min_size=2, max_size=5))


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        # Halves are rounded up: 345 as 340 beside 330 made a ratio of 0.94 look wrong.
        *(
            (formatting.two_digits, *one)
            for one in ((345.0, "350"), (335.0, "340"), (0.345, "0.35"))
        ),
        # How far apart is a factor from twice on.
        (formatting.difference_text, 0.028, "2.8 %"),
        (formatting.difference_text, 0.284, "28 %"),
        (formatting.difference_text, 0.99, "99 %"),
        (formatting.difference_text, 1.0, "2.0×"),
        (formatting.difference_text, 1.7, "2.7×"),
        (formatting.difference_text, 8.9, "9.9×"),
        (formatting.usd, 1234.5, "$1,234.50"),
        (formatting.usd, 1.0, "$1.00"),
        (formatting.usd, 0.0934, "$0.093"),
        (formatting.usd, 0.00085, "$0.00085"),
        (formatting.usd, 0, "$0"),
        (formatting.percent, 0.0021, "0.2 %"),
        (formatting.percent, 0.0999, "10 %"),
        (formatting.percent, 0.61, "61 %"),
        (formatting.percent, 1.25, "125 %"),
        # A change has its sign.
        (formatting.change, 0.1, "+10 %"),
        (formatting.change, -0.1, "−10 %"),
        (formatting.change, 0.0, "0.0 %"),
        (formatting.change, -0.0004, "0.0 %"),  # none that is shown
        (formatting.change, 0.0312, "+3.1 %"),
        (formatting.change, 4.0, "+400 %"),
        # A single ratio has three digits.
        (formatting.multiple, 12.34, "12.3×"),
        (formatting.multiple, 0.5, "0.500×"),
        (formatting.multiple, 0.0, "0.00×"),
        (formatting.multiple, 1234.0, "1230×"),
        (formatting.memory, 3 * 2**29, "1.5 GiB"),
        (formatting.memory, 2**20, "1.0 MiB"),
        (formatting.memory, 600, "0.6 KiB"),
        (formatting.seconds, 0, "0 s"),
        (formatting.shortened_list, ["a", "b", "c"], "a, b, c"),
        (formatting.shortened_list, ["a", "b", "c", "d", "e"], "a, b, c and 2 more"),
        (formatting.shortened_list, [], ""),
    ],
)
def test_a_value_in_words(form, value, text):
    assert form(value) == text


def test_rates_quantities_and_rows_have_their_unit_and_no_unknown_number_format():
    rate = formatting.rate(estimate(1.234e12, 1.2e12, 1.27e12), "flop")
    assert str(rate) == "1.23 Tflop/s [1.20, 1.27]"
    assert formatting.rate(estimate(230e9), "B").value == "230 GB/s"
    quantities = [formatting.quantity(value, "J") for value in (0.00567, 5.0, 12_300.0)]
    assert quantities == ["5.67 mJ", "5.00 J", "12.3 kJ"]
    told = {"better": "higher", "metric": "throughput", "size": 64, "unit": "images/s"}
    assert formatting.row("thumbnails", told, "none") == "thumbnails size 64, throughput (images/s)"
    assert formatting.row("thumbnails", {}, "none") == "thumbnails"
    assert formatting.row("matmul", {"size": 5}, "float32") == "matmul size 5, float32"
    assert formatting.point({}, "none") == ""


RATE = {"size": 64, "metric": "throughput", "unit": "images/s", "better": "higher"}
LOSS = {"metric": "loss", "unit": "", "better": "lower"}
SECONDS = {"size": 64}


def test_a_metric_has_its_interval_the_right_way_round_and_is_worse_where_a_time_is_slower():
    assert ToldMetric.of(RATE) == ("throughput", "images/s", True)
    assert ToldMetric.of(LOSS) == ("loss", "", False)
    assert ToldMetric.of({"metric": "cosine", "size": 5}) is None
    sample = Estimate(value=1 / 120, interval=Interval(low=1 / 130, high=1 / 110))
    assert str(row_values.figure(RATE, sample)) == "120 images/s [110, 130]"
    assert str(row_values.figure(SECONDS, sample)).startswith("8.3 ms [")
    assert row_values.change(RATE, 0.25) == pytest.approx(-0.2)
    assert row_values.change(LOSS, 0.25) == row_values.change(SECONDS, 0.25) == 0.25
    assert row_values.word(RATE, "slower") == "worse"
    assert row_values.word(SECONDS, "slower") == "slower"
    assert row_values.word(LOSS, "noisier") == "noisier"


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
