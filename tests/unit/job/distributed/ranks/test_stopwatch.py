import time
from itertools import cycle, pairwise

import pytest
import torch

from batchmark_job.distributed.ranks.stopwatch import LEAST_SAMPLES, Stopwatch, time_calls
from batchmark_job.distributed.ranks.world import World
from tests.builders.shards import alone
from tests.stand_ins import cuda


def two_laps(stopwatch):
    time.sleep(0.001)
    stopwatch.mark()
    time.sleep(0.004)
    stopwatch.mark()


def test_each_lap_of_each_call_is_told_apart():
    timed = time_calls(alone(), two_laps, count=5, max_seconds=10.0, expected_seconds=0.01)
    assert len(timed.laps) == len(timed.starts) == 5
    for short, long in timed.laps:
        assert short >= 0.001
        assert long >= 0.004
    starts = timed.all_starts()
    assert len(starts) == 6
    for (begin, end), sample in zip(pairwise(starts), timed.samples, strict=True):
        assert end - begin == pytest.approx(sample, abs=0.05)
        assert end > begin


@pytest.mark.parametrize(
    ("max_seconds", "least", "most"), [(0.0, LEAST_SAMPLES, LEAST_SAMPLES), (0.5, 4, 100)]
)
def test_fewer_calls_where_they_take_longer(max_seconds, least, most):
    timed = time_calls(alone(), two_laps, 1000, max_seconds, expected_seconds=0.005)
    assert least <= len(timed.laps) <= most


def test_a_sample_may_be_the_mean_of_several_calls():
    """As of steps of which every third waits for all."""
    waits = cycle((0.0, 0.0, 0.015))

    def call(stopwatch):
        time.sleep(next(waits))
        stopwatch.mark()

    timed = time_calls(alone(), call, 4, 10.0, 0.005, window=3)
    assert len(timed.samples) == len(timed.starts) == 4
    assert len(timed.laps) == 12
    assert min(timed.samples) >= 0.005
    assert timed.mean_laps() == [pytest.approx(sum(timed.samples) / 4)]


@pytest.mark.skipif(cuda.REAL_DEVICE, reason="simulates a GPU where there is none")
def test_on_cuda_events_tell_the_time():
    with cuda.installed("A10G"):
        stopwatch = Stopwatch(torch.device("cuda", 0))
        stopwatch.mark()
        time.sleep(0.003)
        stopwatch.mark()
        (seconds,) = stopwatch.seconds()
        assert 0.003 <= seconds < 1.0
        world = World(0, 1, torch.device("cuda", 0))
        assert len(time_calls(world, two_laps, 4, 10.0, 0.01).laps) == 4
