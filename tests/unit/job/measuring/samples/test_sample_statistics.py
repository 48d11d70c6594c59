"""Synthetic samples of known shape: intervals that cover, flags that flag what they should."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from batchmark_job.measuring.samples.sample_statistics import (
    drift,
    median_interval,
    multimodal,
    outliers,
)

CASES = pytest.mark.parametrize("cases", [200, pytest.param(4000, marks=pytest.mark.monte_carlo)])
UNIMODAL = {
    "tight": lambda rng, n: rng.normal(1, 0.01, n),
    "wide": lambda rng, n: np.abs(rng.normal(1, 0.1, n)),
    "flat": lambda rng, n: rng.uniform(1, 2, n),
    "skewed": lambda rng, n: 1 + rng.exponential(0.5, n),
    "very skewed": lambda rng, n: rng.lognormal(0, 1, n),
    "heavy tail": lambda rng, n: 1 + 0.2 * rng.pareto(1.5, n),
    "a few far off": lambda rng, n: np.where(
        rng.random(n) < 0.05, rng.uniform(2, 5, n), rng.normal(1, 0.02, n)
    ),
}


@pytest.mark.parametrize("count", [6, 7, 10, 17, 50, 301, 1000])
def test_ranks_cover_the_median_as_the_binomial_says(count):
    interval = median_interval(range(1, count + 1))
    below = int(interval.low) - 1
    assert interval.high == count - below
    covered = 1 - 2 * binom.cdf(below, count, 0.5)
    assert 0.95 <= covered <= 0.99


@CASES
@pytest.mark.parametrize("name", UNIMODAL)
def test_interval_holds_the_true_median(name, cases):
    rng = np.random.default_rng(1)
    truth = np.median(UNIMODAL[name](rng, 400_000))
    intervals = [median_interval(list(UNIMODAL[name](rng, 25))) for _ in range(cases)]
    held = sum(i is not None and i.low <= truth <= i.high for i in intervals)
    assert held >= 0.93 * cases


def test_an_interval_is_relative_to_the_median_and_needs_six_samples():
    assert median_interval([1.0] * 5) is None
    interval = median_interval([8.0, 9.0, 10.0, 10.0, 11.0, 14.0])
    assert interval == (10.0, 8.0, 14.0)
    assert interval.relative_half_width == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("samples", "found"),
    [
        ([1.0, 1.01, 0.99, 1.02, 0.98, 3.0, 1.0, 0.2], (5, 7)),
        ([1.0] * 20 + [1.049], ()),  # a small departure of tight samples
        ([1.0] * 20 + [1.051], (20,)),
        ([1.0] * 20 + [0.951], ()),
        ([1.0] * 20 + [0.949], (20,)),
    ],
)
def test_outliers_are_told_by_their_index_on_both_sides(samples, found):
    assert outliers(samples) == found


@pytest.mark.parametrize(("deviations", "found"), [(4.9, ()), (5.1, (0,))])
@pytest.mark.parametrize("side", [-1, 1])
def test_outliers_are_five_standard_deviations_off(deviations, found, side):
    normal = 10 + norm.ppf(np.linspace(0.001, 0.999, 1001))
    assert outliers([10 + side * deviations, *normal]) == found


@CASES
@pytest.mark.parametrize("count", [20, 50, 200, 1000])
@pytest.mark.parametrize("name", UNIMODAL)
def test_one_mode_is_hardly_ever_taken_for_two(name, count, cases):
    rng = np.random.default_rng(2)
    flagged = sum(bool(multimodal(list(UNIMODAL[name](rng, count)))) for _ in range(cases))
    assert flagged <= 0.01 * cases


@CASES
@pytest.mark.parametrize(("share", "distance"), [(0.5, 0.2), (0.2, 0.2), (0.15, 1.0)])
def test_two_modes_are_found(share, distance, cases):
    rng = np.random.default_rng(3)
    centres = np.where(rng.random((cases, 200)) < share, 1 + distance, 1.0)
    found = sum(bool(multimodal(list(samples))) for samples in rng.normal(centres, 0.02))
    assert found >= 0.95 * cases


def test_what_is_no_second_mode():
    rng = np.random.default_rng(4)
    close = rng.normal(np.where(rng.random(500) < 0.5, 1.03, 1.0), 0.001)
    assert multimodal(list(close)) is False
    ticks = np.round(rng.normal(10, 0.5, 400) * 2) / 2
    assert multimodal(list(ticks), resolution=0.5) is False, "the timer's ticks are none"
    assert multimodal([1.0] * 9 + [2.0] * 10) is None
    assert multimodal([0.001] * 10 + [0.002] * 10) is True


@pytest.mark.parametrize("count", [10, 17, 18, 200])
def test_a_trend_is_drift(count):
    rng = np.random.default_rng(6)
    rising = np.linspace(1, 1.5, count) * rng.normal(1, 0.01, count)
    assert drift(list(rising)) is not None
    assert drift(list(rising[::-1])) is not None
    small = [1.0] * (count // 2) + [1.09] * (count // 2)
    assert drift(small) is drift([1.0, 2.0, 3.0]) is None


@CASES
@pytest.mark.parametrize("count", [10, 12, 60, 300])
@pytest.mark.parametrize("name", UNIMODAL)
def test_noise_alone_hardly_ever_drifts(name, count, cases):
    rng = np.random.default_rng(7)
    drifted = sum(drift(list(UNIMODAL[name](rng, count))) is not None for _ in range(cases))
    assert drifted <= 0.02 * cases
