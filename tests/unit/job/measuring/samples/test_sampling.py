"""When sampling ends and a device is warm, on scripted durations; what the GPU alone takes."""

import gc
from itertools import cycle, repeat
from unittest import mock

import numpy as np
import pytest
import torch

from batchmark_job.measuring.limits import PATIENCE, RowLimits
from batchmark_job.measuring.samples.device_times import (
    CALLS,
    TRANSFER_SAMPLES,
    time_device,
    time_transfers,
)
from batchmark_job.measuring.samples.sample_statistics import median_interval
from batchmark_job.measuring.samples.sampling import (
    REPORT_SECONDS,
    CudaEventTimer,
    MonotonicTimer,
    Rotation,
    StoppingRule,
    no_garbage_collection,
    sample,
    unsettled,
    warm_up,
)
from batchmark_job.workloads.matmul import TorchMatmul
from batchmark_job.workloads.support.cuda_graph import CudaGraph
from tests.stand_ins.cuda import REAL_DEVICE
from tests.stand_ins.scripted_timer import ScriptedTimer


def nothing():
    return torch.zeros(1)


def ended(durations, limits):
    """Samples taken and why they ended, were the calls to last so long."""
    rule, samples, seconds = StoppingRule(limits), [], 0.0
    for duration in durations:
        samples.append(duration)
        seconds += duration
        if stopping := rule.verdict(samples, seconds):
            return len(samples), stopping
    raise AssertionError("sampling never ended")


SECOND = RowLimits(max_seconds=1.0)
NOISE = np.random.default_rng(1)


@pytest.mark.parametrize(
    ("durations", "limits", "criterion", "fewest", "most"),
    [
        (repeat(0.011), SECOND, "precise", 10, 10),
        (repeat(0.001), SECOND, "precise", 100, 115),  # but not before a tenth of the time
        (cycle([0.6, 1.2]), SECOND, "max_seconds", 10, 10),  # no fewer than the minimum
        (repeat(0.9), SECOND, "precise", 10, 10),  # though time is used up
        (repeat(0.01), RowLimits(samples=10, max_seconds=1.0), "precise", 10, 10),
        (
            NOISE.normal(1e-6, 2e-7, 1000).clip(1e-8),
            RowLimits(samples=40, max_seconds=1.0),
            "max_samples",
            40,
            40,
        ),
        (NOISE.uniform(0.01, 0.03, 1000), SECOND, "max_seconds", 40, 60),
        (repeat(50.0), SECOND, "max_seconds", 1, 1),  # one call longer than all patience
        (repeat(3.0), SECOND, "max_seconds", 3, PATIENCE / 3.0),  # which ends before the minimum
    ],
)
def test_sampling_ends(durations, limits, criterion, fewest, most):
    taken, stopping = ended(durations, limits)
    assert stopping.criterion == criterion
    assert fewest <= taken <= most
    assert (stopping.relative_half_width is None) == (taken <= 5)


def test_interval_still_covers_after_stopping_when_it_looked_narrow():
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(400):
        noise = rng.lognormal(0, 0.05, 1000) * 1e-3
        taken, stopping = ended(noise, RowLimits(max_seconds=0.1))
        assert stopping.relative_half_width is not None
        interval = median_interval(list(noise[:taken]))
        held += interval.low <= 1e-3 <= interval.high
    assert held >= 0.92 * 400


def test_samples_are_kept_one_by_one_with_their_starts_and_reported_from_time_to_time(monkeypatch):
    durations = [0.1, 0.2] * 6
    timer = ScriptedTimer(durations, monkeypatch)
    samples = []
    sampled = sample(Rotation([nothing]), timer, RowLimits(samples=12, max_seconds=9), samples)
    assert samples == durations
    assert sampled.starts[:3] == pytest.approx([100.0, 100.1, 100.3])
    assert sampled.seconds == pytest.approx(sum(durations))
    assert sampled.stopping.criterion == "max_samples"
    assert sampled.calls == 12
    timer = ScriptedTimer(repeat(REPORT_SECONDS / 4), monkeypatch)
    reports = []
    sample(Rotation([nothing]), timer, RowLimits(max_seconds=9), [], reports.append)
    assert [len(samples) for samples in reports] == [4, 8]


def test_samples_of_the_shortest_calls_are_spread_over_a_tenth_of_the_time(monkeypatch):
    timer = ScriptedTimer(repeat(2**-10), monkeypatch)
    samples = []
    sampled = sample(Rotation([nothing]), timer, RowLimits(samples=101, max_seconds=10), samples)
    assert len(samples) == 101
    assert sampled.stopping.criterion == "precise"
    assert 1.0 <= sampled.seconds < 1.01
    assert sampled.calls == pytest.approx(sampled.seconds * 2**10)
    gaps = np.diff(sampled.starts)
    assert gaps == pytest.approx(0.01, abs=2**-10)


def test_inputs_are_taken_in_turn():
    rotation = Rotation([lambda index=index: index for index in range(3)])
    assert [rotation.take()() for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]
    assert rotation.last == 0


@pytest.mark.parametrize(
    ("durations", "max_seconds", "calls"),
    [
        ([1.0] * 5 + [0.5] * 5 + [0.4] * 5 + [0.39] * 5 + [9.0], 60, 20),
        ([2.0**power for power in range(9)], 100, 5),
        ([30.0] * 2, 10, 1),
    ],
    ids=["two windows agree", "nothing settles", "a slow call"],
)
def test_warm_up_ends(durations, max_seconds, calls, monkeypatch):
    timer = ScriptedTimer(durations, monkeypatch)
    assert warm_up(Rotation([nothing]), timer, RowLimits(max_seconds=max_seconds)) == calls


@pytest.mark.parametrize(
    ("samples", "trial_seconds", "reason"),
    [
        (
            [0.001, 0.003] * 5,
            None,
            "after 10 samples, the median could be anywhere from 1 ms to 3 ms",
        ),
        (
            [1.0] * 5 + [1.2] * 5,
            None,
            "the median of the last 5 samples differs by +20% from that of the first 5",
        ),
        ([0.016] * 10, 4e-5, "a call took 40 µs in the trial, but 16 ms afterwards"),
        ([3.0] * 10, 1.0, None),
        ([1.0] * 10, 9.0, None),
        ([1.0, 1.9] * 30, None, None),
        ([1.0], None, None),
    ],
    ids=["jumping", "drifting", "far above the trial", "above it", "below it", "steady", "one"],
)
def test_why_samples_are_unsettled(samples, trial_seconds, reason):
    assert unsettled(samples, trial_seconds) == reason


def test_calls_of_the_host_are_timed_one_by_one_without_the_collector():
    with pytest.raises(LookupError), no_garbage_collection():  # noqa: PT012
        assert not gc.isenabled()
        raise LookupError
    assert gc.isenabled()
    timer = MonotonicTimer("cpu")
    timer.fit(1e-6)
    assert timer.calls_per_sample == 1
    seconds, result = timer.seconds(lambda: 7)
    assert result == 7
    assert seconds > 0


@pytest.mark.parametrize(
    ("milliseconds", "seconds"), [(0.0, 0.5e-6), (0.0004, 0.5e-6), (0.0006, 0.6e-6), (2.0, 0.002)]
)
def test_cuda_events_are_in_seconds_and_never_below_their_resolution(
    milliseconds, seconds, monkeypatch
):
    event = mock.Mock(elapsed_time=lambda end: milliseconds)
    monkeypatch.setattr(torch.cuda, "Event", lambda enable_timing: event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    assert CudaEventTimer().seconds(lambda: 7) == (pytest.approx(seconds), 7)


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize(
    ("call_seconds", "evicted_bytes", "calls"),
    [(1e-6, 0, 100), (2e-5, 0, 50), (1.9e-4, 0, 6), (2e-4, 0, 1), (1.0, 0, 1), (2e-5, 64, 1)],
)
def test_short_calls_on_cuda_are_timed_several_in_a_row(call_seconds, evicted_bytes, calls):
    timer = CudaEventTimer(evicted_bytes)
    timer.fit(call_seconds)
    made = []
    rotation = Rotation([lambda n=n: made.append(n) or n for n in range(3)])
    seconds, result = timer.sample(rotation)
    assert len(made) == calls == timer.calls_per_sample
    assert made[:4] == [0, 1, 2, 0][: len(made)]
    assert result == made[-1]
    assert timer.resolution_seconds == pytest.approx(0.5e-6 / calls)
    assert seconds >= timer.resolution_seconds


@pytest.mark.usefixtures("cuda")
def test_cuda_events_agree_with_the_host_s_clock():
    size = 4096 if REAL_DEVICE else 512  # by the simulated device's CPU
    matrix = torch.ones(size, size, device="cuda")
    events, host = CudaEventTimer(), MonotonicTimer("cuda")
    by_events = []

    def timed_by_events():
        by_events.append(events.seconds(lambda: torch.mm(matrix, matrix))[0])

    by_host = [host.seconds(timed_by_events)[0] for _ in range(20)]  # of the same calls
    ratios = np.array(by_host) / by_events
    assert ratios.min() > 0.98
    assert ratios.min() < 1.2


def product():
    return tuple(torch.rand(2, 64, 64, device="cuda"))


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("implementation", [TorchMatmul(), CudaGraph(TorchMatmul())])
def test_a_call_has_a_time_of_the_gpu_alone_and_a_latency(implementation):
    found = time_device(Rotation([implementation.prepare(product())]), 1e-4)
    assert set(found) == {"kernel_seconds", "latency_seconds"}
    assert min(found.values()) > 0


@pytest.mark.usefixtures("cuda")
def test_a_call_that_waits_for_the_gpu_can_not_be_queued():
    left, right = product()

    def call():
        result = left @ right
        torch.cuda.synchronize()
        return result

    assert set(time_device(Rotation([call]), 1e-4)) == {"latency_seconds"}


@pytest.mark.usefixtures("cuda")
def test_no_call_is_queued_alone_and_none_too_often():
    calls = []

    def call():
        calls.append(1)
        return torch.ones(1, device="cuda")

    time_device(Rotation([call]), 10.0)
    few = len(calls)
    calls.clear()
    time_device(Rotation([call]), 1e-9)
    assert few < len(calls) <= 20 + 5 * 2 * CALLS


def test_copies_that_memory_can_not_be_pinned_for_stay_unknown(monkeypatch):
    def full(_):
        raise torch.AcceleratorError("CUDA error: out of memory")

    released = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: released.append(None))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.Tensor, "pin_memory", full)
    inputs = (torch.ones(8),)
    found = time_transfers(inputs, inputs, torch.ones(8))
    assert set(found) == {"allocate_seconds"}
    assert len(released) == 1 + TRANSFER_SAMPLES  # before each allocation
