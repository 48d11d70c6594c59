"""Crossovers planted in synthetic costs are found, and none is found where there is none."""

import numpy as np
import pytest

from batchmark.analysis.pairs.break_even import Curve, break_even
from batchmark.core.intervals import Median
from batchmark.report import words as report_words
from tests.builders.noise import quick_and_long


def curve(*values):
    """Costs that are known exactly."""
    exact = np.array(values, dtype=float)
    return Curve(exact, np.repeat(exact[:, None], 101, axis=1))


def said(found):
    return report_words.break_even(found, "g5", "c5")


def measured(costs, *, noise, jobs, rng):
    """A curve from samples with right-skewed noise, half of it shared by a job's samples."""
    medians = []
    for cost in costs:
        levels = cost * (1 + noise / 2 * rng.standard_normal(jobs))
        count = int(rng.integers(8, 15))
        samples = [list(level * (1 + noise * (rng.gamma(2, 1, count) - 1.678))) for level in levels]
        medians.append(Median(samples))
    return Curve.of(medians)


def planted(rng, *, inside):
    """Sizes, both targets' true costs a + b * size**k, and the size where these are equal."""
    count, span = int(rng.integers(4, 9)), rng.uniform(np.log(4), np.log(64))
    first, last = np.log(rng.choice([16, 100, 1000])), 0.0
    last = first + span
    sizes = np.exp(np.linspace(first, last, count))
    at = rng.uniform(first + 0.05 * span, last - 0.05 * span) if inside else last + 1.0
    truth = float(np.exp(at))
    exponent = rng.choice([1, 1.5, 2, 3])
    speedup, cpu_share = rng.uniform(3, 50), rng.choice([0, 0.01, 0.1])
    cpu = cpu_share * truth**exponent + sizes**exponent
    overhead = (cpu_share + 1 - 1 / speedup) * truth**exponent
    gpu = overhead + sizes**exponent / speedup
    return list(sizes), gpu, cpu, truth


def find(rng, *, inside):
    sizes, gpu, cpu, truth = planted(rng, inside=inside)
    noise, jobs = rng.uniform(0.005, 0.05), int(rng.integers(1, 11))
    curves = [measured(costs, noise=noise, jobs=jobs, rng=rng) for costs in (gpu, cpu)]
    return break_even(sizes, *curves), truth


@quick_and_long(("cases", "least"), quick=(12, 11), long=(100, 93))
def test_planted_crossovers_lie_in_their_intervals_which_are_narrow(cases, least):
    rng = np.random.default_rng(20261121)
    hits, widths = 0, []
    for _ in range(cases):
        found, truth = find(rng, inside=True)
        low, high = found.low or 0.0, found.high or np.inf
        hits += found.outcome == "crossover" and low <= truth <= high
        if found.low and found.high:
            widths.append(found.high / found.low - 1)
    assert hits >= least
    assert len(widths) >= 0.9 * cases
    assert np.median(widths) < 0.15


@quick_and_long("cases", quick=[6], long=[30])
def test_no_crossover_is_found_beyond_the_sizes_measured(cases):
    rng = np.random.default_rng(7)
    outcomes = [find(rng, inside=False)[0].outcome for case in range(cases)]
    assert outcomes == ["cpu_ahead"] * cases


def test_a_crossing_of_two_powers_is_found_exactly_but_between_two_sizes_it_may_be_anywhere():
    """Straight lines in log-log: 4 + log(n) against 2 log(n) cross at n = 1000."""
    sizes = [100.0, 400.0, 2000.0, 8000.0]
    found = break_even(sizes, curve(*[1e3 * n for n in sizes]), curve(*[n**2 for n in sizes]))
    assert found.size == pytest.approx(1000)
    assert (found.low, found.high) == pytest.approx((1000, 1000))
    assert (found.cpu_ahead, found.gpu_ahead) == ((100, 400), (2000, 8000))
    assert found.monotonic
    found = break_even([10, 1000], curve(5, 6), curve(1, 100))
    assert 10 <= found.low < found.size < found.high <= 1000


@pytest.mark.parametrize(
    ("gpu", "cpu", "outcome", "words"),
    [
        (
            (1, 1, 1),
            (2, 3, 4),
            "gpu_ahead",
            "none: g5 is already ahead at the smallest size and stays ahead",
        ),
        ((2, 3, 4), (1, 1, 1), "cpu_ahead", "none: c5 is ahead throughout"),
        ((1, 2, 4), (1, 2, 4), "undecided", "not known yet"),
    ],
)
def test_where_there_is_no_crossing_it_says_who_is_ahead(gpu, cpu, outcome, words):
    found = break_even([10, 20, 40], curve(*gpu), curve(*cpu))
    assert found.outcome == outcome
    assert found.size is found.low is found.high is None
    assert said(found) == (words, "")


def test_of_several_crossings_the_last_counts_whoever_wins_from_there_on():
    found = break_even([10, 20, 40, 80], curve(1, 3, 1, 3), curve(2, 2, 0.5, 9))
    assert not found.monotonic
    assert 40 < found.size < 80
    assert found.gpu_ahead == (10, 80)
    assert found.cpu_ahead == (20, 40)
    found = break_even([10, 20, 40], curve(1, 2, 9), curve(2, 4, 4.5))
    assert found.ahead_above == "cpu"
    assert 20 < found.size < 40
    assert said(found).value.startswith("c5 ahead from ")


def uncertain(low, high):
    """A cost that may lie anywhere from low to high."""
    draws = np.linspace(low, high, 101)
    return draws.mean(axis=0), draws


def test_an_end_beyond_the_sizes_is_open():
    """The GPU is ahead at 20; at the largest size either may be."""
    values, draws = uncertain(np.array([3.8, 3.8, 3.8, 6.0]), np.array([3.8, 3.8, 3.8, 9.5]))
    found = break_even([5, 10, 20, 40], Curve(values, draws.T), curve(1, 2, 4, 8))
    assert (found.outcome, found.ahead_above, found.high) == ("crossover", "gpu", None)
    assert (found.cpu_ahead, found.gpu_ahead, found.undecided) == ((5, 10), (20,), (40,))
    assert 10 < found.low < 20
    assert said(found).interval.endswith("above 40]")


@pytest.mark.parametrize("unclear", [0, 1, 2])
@pytest.mark.parametrize("ahead", ["gpu_ahead", "cpu_ahead"])
def test_where_one_side_alone_is_ever_surely_ahead_there_is_no_crossover(unclear, ahead):
    """Wherever the unclear size lies, and whichever side it is."""
    low, high = np.ones(3), np.ones(3)
    low[unclear], high[unclear] = 0.8, 4.4
    values, draws = uncertain(low, high)
    curves = Curve(values, draws.T), curve(2, 3, 4)
    found = break_even([10, 20, 40], *(curves if ahead == "gpu_ahead" else curves[::-1]))
    name = {"gpu_ahead": "g5", "cpu_ahead": "c5"}[ahead]
    assert found.outcome == ahead
    assert found.undecided == ([10, 20, 40][unclear],)
    assert found.size is found.low is found.high is None
    assert said(found) == (f"none seen: {name} is ahead wherever the result is known", "")


def test_the_rows_verdicts_decide_where_there_are_any():
    curves = curve(5, 5, 5), curve(1, 4, 16)
    assert break_even([10, 20, 40], *curves).outcome == "crossover"
    found = break_even([10, 20, 40], *curves, verdicts=[0, 0, 0])
    assert (found.outcome, found.undecided) == ("undecided", (10, 20, 40))
    found = break_even([10, 20, 40], *curves, verdicts=[0, 0, 1])
    assert (found.outcome, found.gpu_ahead) == ("gpu_ahead", (40,))


def test_without_draws_there_is_a_guess_but_nothing_is_sure():
    def guessed(*values):
        return Curve(np.array(values), None, "3 samples")

    gpu, cpu = guessed(5, 5, 5), guessed(1, 4, 16)
    found = break_even([10, 20, 40], gpu, cpu)
    assert 20 < found.size < 40
    assert found.low is found.high is None
    assert (found.outcome, found.undecided) == ("undecided", (10, 20, 40))
    assert found.interval_reason == "3 samples"
    words = f"about {found.size:.0f}"
    assert said(found) == (f"not known yet; by point estimates only, {words}", "")
    mirrored = said(break_even([10, 20, 40], cpu, gpu))
    assert mirrored == (f"not known yet; by point estimates only, c5 ahead from {words}", "")
    # A lead of 1 % between two points may be chance, so nobody is ahead throughout.
    found = break_even([10, 20, 40], guessed(1, 2, 3), guessed(1.01, 2.1, 3.1))
    assert (found.outcome, found.gpu_ahead) == ("undecided", ())
    assert said(found) == ("not known yet", "")


def test_sizes_are_printed_alike_however_large():
    values, draws = uncertain(np.array([1.0, 2.0, 3.5]), np.array([1.0, 2.0, 4.6]))
    sizes = [100_000, 1_000_000, 10_000_000]
    found = break_even(sizes, curve(1.5, 1.5, 4), Curve(values, draws.T))
    low = f"{round(found.low, -3):.0f}"
    assert said(found).interval == f"[{low}, above 10000000]"


@pytest.mark.parametrize("sizes", [[10], [10, 10], [20, 10]])
def test_sizes_must_ascend(sizes):
    costs = curve(*[1] * len(sizes))
    with pytest.raises(ValueError, match="at least two sizes in ascending order, got"):
        break_even(sizes, costs, costs)
