"""Bootstrap intervals keep their promise."""

import numpy as np
import pytest
from scipy import stats

from batchmark.core.intervals import Estimate, Interval, Median, ratio
from tests.builders.noise import quick_and_long
from tests.builders.runs import noisy


@quick_and_long("cases", quick=[60], long=[400])
@pytest.mark.parametrize("count", [6, 11, 40])
def test_intervals_hold_the_truth_as_often_as_they_say(count, cases):
    """Skewed noise around known medians of 1 and 1/8."""
    rng = np.random.default_rng(count)
    hits = ratio_hits = 0
    for _ in range(cases):
        slow = Median([rng.lognormal(0, 0.3, count)])
        fast = Median([rng.lognormal(0, 0.3, count) / 8])
        median, speedup = slow.estimate().interval, ratio(slow, fast).interval
        hits += median.low <= 1 <= median.high
        ratio_hits += speedup.low <= 8 <= speedup.high
    assert hits / cases >= 0.92
    assert ratio_hits / cases >= 0.92


def test_interval_agrees_with_scipy():
    samples = noisy(1.0, count=50, spread=0.2)
    reference = stats.bootstrap(
        (samples,), np.median, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    interval = Median([samples]).estimate().interval
    assert interval.low == pytest.approx(reference.low, rel=0.01)
    assert interval.high == pytest.approx(reference.high, rel=0.01)


def between(low, high):
    return {"interval": Interval(low=low, high=high, confidence=0.9)}


NONE = {"interval": None, "interval_reason": "1 sample"}


@pytest.mark.parametrize(("given", "inverse"), [(between(2, 5), between(0.2, 0.5)), (NONE, NONE)])
def test_an_inverse_has_its_interval_the_right_way_round(given, inverse):
    given, inverse = Estimate(value=4.0, **given), Estimate(value=0.25, **inverse)
    assert given.inverse() == inverse
    assert given.scaled(2).interval_reason == given.interval_reason
    assert inverse.inverse() == given


def test_many_samples_of_few_jobs_do_not_fake_precision():
    """Three jobs 10 % apart, each with 200 nearly equal samples."""
    jobs = [noisy(level, count=200, spread=0.001) for level in (0.9, 1.0, 1.1)]
    pooled = Median([np.concatenate(jobs)]).estimate()
    by_job = Median(jobs).estimate()
    assert by_job.value == pooled.value
    width = by_job.interval.high - by_job.interval.low
    assert width > 0.15
    assert width > 5 * (pooled.interval.high - pooled.interval.low)


def test_jobs_are_resampled_to_their_own_length_though_they_are_of_one_process_each():
    """A padding value or a foreign sample would show as a median outside both jobs."""
    draws = Median([[1.0] * 3, [1.0] * 50, [1.0]]).draws()
    assert set(draws) == {1.0}
    jobs = [[1.0, 2.0, 4.0], [3.0, 5.0]]
    named = Median(jobs, turns=[[[3]], [[2]]]).draws()
    assert (Median(jobs).draws() == named).all()


def test_four_samples_are_the_fewest_that_have_a_spread():
    assert Median([[1.0, 2.0, 3.0]]).relative_spread() is None
    assert Median([[1.0, 2.0, 3.0, 4.0]]).relative_spread() == pytest.approx(0.6)


@pytest.mark.parametrize(
    "turns",
    [[[[100], [100], [100]]], [[[100, 100, 100]]]],
    ids=["processes", "turns of one process"],
)
def test_parts_of_one_job_that_differ_widen_its_interval(turns):
    rng = np.random.default_rng(5)
    job = np.concatenate([rng.normal(centre, 0.01, 100) for centre in (1.0, 1.2, 1.4)])
    alone = Median([job]).estimate().interval
    apart = Median([job], turns=turns).estimate().interval
    assert apart.low < 1.05 < alone.low < alone.high < 1.35 < apart.high


@pytest.mark.parametrize("turns", [[[[1, 2], [3]], [[3]]], [[[1], [2], [3]], [[3]]]])
def test_jobs_may_have_different_numbers_of_processes_and_these_of_turns(turns):
    draws = Median([[1.0] * 6, [2.0] * 3], turns=turns).draws()
    assert set(draws) <= {1.0, 1.5, 2.0}
    assert 0.5 < np.mean(draws == 1.0) < 0.9
