"""The knee of curves with known answers, and what noise makes of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchmark.analysis.sharing.knee import WORTH, find_knee
from batchmark.core.intervals import Median
from tests.builders.hostile import fuzzed


def measured(throughputs, *, spread=0.01, seed=0):
    """Seconds per step by number of replicas, with noise half of which a group shares."""
    rng = np.random.default_rng(seed)
    found = {}
    for number, throughput in throughputs.items():
        levels = 1 + spread / 2 * rng.standard_normal((3, 1))
        samples = levels * (1 + spread * rng.standard_normal((3, 5))) / throughput
        found[number] = Median([list(samples.flat)], turns=[[[5]] * 3])
    return found


@pytest.mark.parametrize(
    ("throughputs", "outcome", "replicas"),
    [
        ({1: 1, 2: 2, 4: 4, 5: 4, 10: 4}, "found", 4),  # linear, then flat
        ({1: 1, 2: 2, 5: 5, 10: 10}, "still_rising", 10),
        ({1: 1, 2: 1, 5: 1, 10: 1}, "found", 1),  # flat: sharing adds nothing
        ({1: 1, 2: 0.7, 5: 0.5}, "found", 1),
        ({1: 1, 2: 1.8, 5: 2.5, 10: 1.5, 20: 1}, "found", 5),  # declines after the peak
        ({1: 1, 2: 1.8, 5: 1.96, 10: 2}, "found", 5),  # the last percents are not worth having
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_knees_of_known_curves(throughputs, outcome, replicas, seed):
    knee = find_knee(measured(throughputs, spread=0.005, seed=seed))
    assert (knee.outcome, knee.replicas) == (outcome, replicas)


def test_noise_invents_no_knee_and_hides_none():
    flat = dict.fromkeys((1, 2, 5, 10, 20), 1.0)
    steep = {1: 1, 2: 2, 5: 4, 10: 4, 20: 4}
    for seed in range(20):
        wide = find_knee(measured(flat, spread=0.08, seed=seed))
        assert wide.outcome == "not_known" or wide.replicas == 1
        assert wide.low == 1
        known = find_knee(measured(steep, spread=0.02, seed=seed))
        assert known.low == 5
        assert known.outcome == "found" or known.high > 5
    assert wide.reason.startswith("the samples' spread allows anything from 1 to")


def test_what_is_not_enough_for_a_knee():
    one = find_knee(measured({4: 1.0}))
    assert (one.outcome, one.replicas) == ("not_known", None)
    few = find_knee({n: Median([[1 / n] * 3]) for n in (1, 2)})
    assert (few.outcome, few.replicas, few.low) == ("not_known", 2, None)
    assert "needs at least 6" in few.reason


@fuzzed(25)
@given(
    st.lists(st.floats(0.01, 100), min_size=2, max_size=6),
    st.floats(1e-6, 1e6),
    st.sampled_from([0.001, 0.02, 0.1]),
)
def test_a_knee_lies_in_its_interval_among_the_numbers_measured_in_any_unit(levels, unit, spread):
    throughputs = dict(enumerate(levels, start=1))
    knee = find_knee(measured(throughputs, spread=spread))
    assert knee.low <= knee.high
    assert {knee.low, knee.high, knee.replicas} <= set(throughputs)
    assert (knee.outcome == "not_known") == (knee.low < knee.high)
    in_unit = {number: unit * level for number, level in throughputs.items()}
    assert find_knee(measured(in_unit, spread=spread)) == knee


@fuzzed(25)
@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=6))
def test_without_noise_the_knee_is_the_first_that_has_its_share_of_the_best(levels):
    knee = find_knee({n: Median([[1 / one] * 6]) for n, one in enumerate(levels)})
    throughputs = [1 / (1 / one) for one in levels]
    enough = [n for n, one in enumerate(throughputs) if one >= WORTH * max(throughputs)]
    assert knee.replicas == enough[0]
    last = len(levels) - 1
    assert knee.outcome == ("still_rising" if enough[0] == last else "found")
