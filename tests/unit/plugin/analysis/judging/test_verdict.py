"""What verdicts make of the noise from job to job."""

import math

import numpy as np
import pytest
from scipy import stats

from batchmark.analysis.judging.noise import row_scatter
from batchmark.analysis.judging.significance import (
    ASSUMED,
    JobNoise,
    Resolution,
    log_spread,
    repeats_to_detect,
)
from batchmark.analysis.judging.verdict import Contestant, judge
from tests.builders.noise import SAMPLES, quick_and_long, samples_of


def contestant(medians, calibration=None, name="c5.2xlarge"):
    return Contestant(name, samples_of([(median,) * SAMPLES for median in medians]), calibration)


def calibration_of(*medians):
    return row_scatter(samples_of([(median,) * SAMPLES for median in medians]))


def gamma_with_stalls(rng, jobs, noise):
    """Samples in seconds: skewed from job to job and within jobs, one in twenty stalled."""
    levels = 1 + noise * rng.gamma(2, 1, (jobs, 1)) / math.sqrt(2)
    samples = levels * (1 + 0.02 * rng.gamma(2, 1, (jobs, SAMPLES)))
    return (samples * np.where(rng.random(samples.shape) < 0.05, 3, 1)).tolist()


def heavy_tails(rng, jobs, noise):
    """Jobs that differ as Student's t with 3 degrees of freedom does."""
    levels = np.exp(noise * rng.standard_t(3, (jobs, 1)))
    return (levels * (1 + 0.02 * rng.gamma(2, 1, (jobs, SAMPLES)))).tolist()


@quick_and_long("cases", quick=[20], long=[800])
@pytest.mark.parametrize("noise", [gamma_with_stalls, heavy_tails])
@pytest.mark.parametrize(
    ("jobs", "other_jobs", "calibration_jobs"),
    [
        (1, 1, 0),
        (1, 1, 2),
        (1, 1, 5),
        (1, 1, 20),
        (2, 2, 5),
        (3, 3, 0),
        (3, 20, 0),
        (5, 5, 5),
        (20, 20, 0),
    ],
)
def test_equal_jobs_are_rarely_called_different(noise, jobs, other_jobs, calibration_jobs, cases):
    rng = np.random.default_rng([jobs, other_jobs, calibration_jobs])
    called = left_out = 0
    for _ in range(cases):
        sides = []
        for name, number in (("a", jobs), ("b", other_jobs)):
            known = None
            if calibration_jobs:
                known = row_scatter(samples_of(noise(rng, calibration_jobs, 0.02)))
            sides.append(Contestant(name, samples_of(noise(rng, number, 0.02)), known))
        judgement = judge(*sides)
        called += judgement.faster is not None
        left_out += not judgement.ratio.interval.low <= 1 <= judgement.ratio.interval.high
    assert called <= max(1, 0.01 * cases)
    assert left_out <= max(4, 0.07 * cases)


@quick_and_long(("cases", "least"), quick=(30, 0.85), long=(500, 0.95 * 0.95))
@pytest.mark.parametrize(
    ("jobs", "calibration_jobs", "planted"),
    [(5, 0, 0.10), (3, 10, 0.10), (3, 0, None), (5, 10, None), (1, 20, None), (1, 2, None)],
)
def test_a_planted_difference_is_found_as_often_as_stated(
    jobs, calibration_jobs, planted, cases, least
):
    """1 % noise from job to job; None plants the smallest detectable change itself."""
    log_sd = 0.01
    noise = (
        JobNoise(log_sd, calibration_jobs - 1, "calibration")
        if calibration_jobs
        else JobNoise(log_sd, jobs - 1, "repeats")
    )
    smallest = Resolution(noise, jobs, noise, jobs).smallest_detectable_change
    planted = planted or smallest
    assert smallest <= planted
    rng = np.random.default_rng([jobs, calibration_jobs])
    found = 0
    for _ in range(cases):
        sides = []
        for level in (1.0, 1 + planted):
            logs = rng.normal(0, log_sd, (2, max(jobs, calibration_jobs)))
            known = calibration_of(*np.exp(logs[0])) if calibration_jobs else None
            sides.append(contestant(level * np.exp(logs[1, :jobs]), known))
        found += judge(*sides).faster == "first"
    assert found / cases >= least


@pytest.mark.parametrize("floor", [0.02, 0.1, 0.25])
def test_that_many_repeats_and_no_fewer_detect_the_change(floor):
    def detectable(jobs):
        noise = JobNoise(math.log1p(floor), jobs - 1, "repeats")
        return Resolution(noise, jobs, noise, jobs).smallest_detectable_change

    jobs = repeats_to_detect(0.2, floor)
    assert detectable(jobs) <= 0.2
    assert jobs == 6 or detectable(jobs - 1) > 0.2


def test_the_smallest_detectable_change_with_known_noise_is_that_of_the_normal_distribution():
    known = JobNoise(0.02, math.inf, "assumed")
    resolution = Resolution(known, 4, known, 4)
    error = 0.02 * math.sqrt(2 / 4)
    assert resolution.critical_difference == pytest.approx(2.807034 * error, rel=1e-5)
    assert resolution.smallest_detectable_change == pytest.approx(
        math.expm1((2.807034 + 1.959964) * error), rel=1e-4
    )


@pytest.mark.parametrize("jobs", [3, 5, 20])
def test_the_t_test_alone_misses_half_as_much_as_stated(jobs):
    """Against simulated Welch tests; the interval has the other half."""
    noise = JobNoise(1.0, jobs - 1, "repeats")
    resolution = Resolution(noise, jobs, noise, jobs)
    change = math.log1p(resolution.smallest_detectable_change)
    rng = np.random.default_rng(jobs)
    first, second = rng.normal(0, 1, (2, 20_000, jobs))
    a, b = first.var(1, ddof=1), second.var(1, ddof=1)
    welch = np.minimum((a + b) ** 2 / (a**2 + b**2) * (jobs - 1), 2 * (jobs - 1))
    lead = change + second.mean(1) - first.mean(1)
    critical = stats.t.isf(0.0025, welch) * np.sqrt((a + b) / jobs)
    assert np.mean(lead > critical) == pytest.approx(0.975, abs=0.005)


def test_three_jobs_that_agree_by_chance_do_not_pass_for_certainty():
    few, many = JobNoise(0.001, 2, "repeats"), JobNoise(0.02, 19, "repeats")
    error = math.sqrt(0.001**2 / 3 + 0.02**2 / 20)
    critical = Resolution(few, 3, many, 20).critical_difference
    assert critical == pytest.approx(stats.t.isf(0.0025, 4) * error)


def test_a_single_job_without_a_calibration_gets_the_assumed_noise():
    noise = judge(contestant([1.0]), contestant([2.0])).noise
    assert noise.source == "assumed"
    assert noise.floor == pytest.approx(math.expm1(ASSUMED.log_sd))
    assert noise.note == "not known yet: equal jobs may differ by up to 2.7×"
    assert judge(contestant([1.0]), contestant([2.6])).faster is None
    assert judge(contestant([1.0]), contestant([2.8])).faster == "first"
    interval = judge(contestant([1.0]), contestant([1.4])).ratio.interval
    factor = math.exp(1.959964 * ASSUMED.log_sd * math.sqrt(2))
    assert interval.low == pytest.approx(1.4 / factor)
    assert interval.high == pytest.approx(1.4 * factor)
    # Two that are far apart are not assumed to be close.
    noise = judge(contestant([1.0, 3.0]), contestant([9.0])).noise
    assert noise.floor == pytest.approx(math.expm1(log_spread([1.0, 3.0])))


def test_three_jobs_a_side_or_more_than_were_calibrated_tell_their_own_noise():
    judgement = judge(contestant([1.0, 1.01, 0.99]), contestant([1.2, 1.21, 1.19]))
    assert (judgement.faster, judgement.noise.source, judgement.noise.note) == (
        "first",
        "repeats",
        None,
    )
    known = calibration_of(1.0, 1.01)
    noise = judge(contestant([1.0, 1.01, 0.99], known), contestant([1.2, 1.21, 1.19], known)).noise
    assert noise.source == "repeats"
    assert noise.note.startswith(
        "c5.2xlarge: uses the noise of its own 3 jobs, because the calibration had only 2"
    )


def test_a_calibration_decides_between_single_jobs_and_the_weaker_source_is_named():
    known = calibration_of(1.0, 1.01, 0.99, 1.005, 0.995)
    judgement = judge(contestant([1.2], known), contestant([1.0], known))
    assert (judgement.faster, judgement.noise.source) == ("second", "calibration")
    assert judgement.noise.floor == pytest.approx(known.floor)
    assert judgement.noise.smallest_detectable_change == known.smallest_detectable_change[1]
    known = calibration_of(1.0, 1.01, 0.99)
    assert judge(contestant([1.0], known), contestant([9.0])).noise.source == "assumed"
    three = contestant([9.0, 9.1, 9.2])
    assert judge(contestant([1.0], known), three).noise.source == "repeats"


def test_a_calibration_that_the_jobs_belie_is_not_used():
    known = calibration_of(1.0, 1.001, 0.999, 1.0005, 0.9995)
    restless = contestant([1.0, 1.4, 0.7], known, name="g5.xlarge")
    noise = judge(restless, contestant([1.2, 1.2, 1.2], known)).noise
    assert noise.source == "repeats"
    assert "g5.xlarge: its 3 jobs differ by 41 %, more than its calibration allows" in noise.note


def test_a_calibration_of_two_jobs_makes_no_verdict_worse():
    """Known with one degree of freedom, 6 % of noise would explain more than the assumed 28 %."""
    known = calibration_of(1.0, 1.09)
    without = judge(contestant([1.0]), contestant([2.8]))
    judgement = judge(contestant([1.0], known), contestant([2.8], known))
    assert (judgement.faster, judgement.noise.source) == ("first", "assumed")
    assert judgement.noise.critical_change == without.noise.critical_change
    assert judgement.noise.smallest_detectable_change == without.noise.smallest_detectable_change
    assert judgement.noise.note.startswith(
        "c5.2xlarge: judged by the assumed noise, because its calibration from 2 jobs "
        "(6.3 %) would leave more undecided"
    )
    # The change stated for a quiet one is at most the assumed one.
    known = calibration_of(1.0, 1.014)
    judgement = judge(contestant([1.0], known), contestant([1.3], known))
    assert (judgement.faster, judgement.noise.source) == ("first", "calibration")
    assumed = Resolution(ASSUMED, 1, ASSUMED, 1).smallest_detectable_change
    assert judgement.noise.smallest_detectable_change <= assumed
    assert known.smallest_detectable_change[1] <= assumed
    # More noise than is assumed is not argued away.
    known = calibration_of(1.0, 1.6)
    noise = judge(contestant([1.0], known), contestant([9.0], known)).noise
    assert (noise.source, noise.floor) == ("calibration", pytest.approx(known.floor))
    assert noise.critical_change > math.expm1(3.97 * ASSUMED.log_sd)
