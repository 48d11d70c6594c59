"""One implementation of a row with one thread count, prepared by a worker and ready to be timed."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterable, Iterator
from functools import partial

import torch
from torch import Tensor

from batchmark_job.machine import memory, nvml
from batchmark_job.machine.conditions import thread_times, wait_share
from batchmark_job.machine.threads import WorkingThreads, set_threads
from batchmark_job.measuring.candidate import CHANGES_INPUTS, LONG_SECONDS
from batchmark_job.measuring.limits import RowLimits
from batchmark_job.measuring.problem import Problem
from batchmark_job.measuring.processes.answers import FirstCall, LastLook, TurnSamples
from batchmark_job.measuring.processes.input_store import bytes_of
from batchmark_job.measuring.processes.workers import Tell
from batchmark_job.measuring.samples.device_times import time_device, time_transfers
from batchmark_job.measuring.samples.sampling import (
    WARMUP_SECONDS,
    MonotonicTimer,
    Rotation,
    Sampled,
    no_garbage_collection,
    sample,
    timer_for,
    unsettled,
    warm_up,
)
from batchmark_job.result.document import Correctness
from batchmark_job.workloads.base import Implementation, Workload
from batchmark_job.workloads.support import torch_calls
from batchmark_job.workloads.tensors import Tensors

TURN_SECONDS = 0.01  # judgment: twice SETTLE_SECONDS, so that most of a turn is timed
SETTLE_SECONDS = 0.005  # after this many, short calls find a few megabytes in the last-level cache
TRIAL_WARMUP_SECONDS = 0.01  # judgment: as a turn; before samples comes the longer WARMUP_SECONDS
WARM_SECONDS = 0.2  # longer calls are warm after the first
PROBED_BYTES = 1 << 20  # elements per input, evenly spread, compared to detect changes

RESTARTS = 2  # judgment: after three disturbed attempts, a fourth would hardly be better
LAST = 1  # makes the last check compare different elements than the first
RESTART_SHARE = 3.0  # share of max_seconds; sampling that took longer is not repeated
# NVML's counter moves every 20 to 100 ms: an error of a tenth at most over a second.
ENERGY_SECONDS = 1.0


class Prepared:
    """An implementation's calls on rotating inputs, and the settings under which they are timed."""

    def __init__(
        self,
        tell: Tell,
        problem: Problem,
        implementation: Implementation,
        threads: int | None,
        input_sets: int,
    ) -> None:
        self._tell = tell
        self._problem = problem
        self._implementation = implementation
        self._latest_seconds: float | None = None  # of a call
        self._samples: list[float] = []  # of the latest turn
        self._output: Tensor | None = None  # of the latest sample
        self._peak_bytes: int | None = None
        if threads is not None:
            set_threads(threads)
        self._threads = WorkingThreads(torch.get_num_threads() if problem.device == "cpu" else 1)
        with self._state():
            sets = map(problem.inputs, range(input_sets))
            calls = list(self._implementation.prepare_each(self._bring(sets)))
            self._rotation = Rotation(calls)
            self._timer = timer_for(problem.device, problem.bytes_to_evict(input_sets))
        tell("mark", "inputs_ready")

    def first_call(self) -> FirstCall:
        """Make the cold call, check its output, check that no input has changed, and warm up."""
        with self._state():
            seconds, output = self._cold_call()
            first = self._checked(seconds, output)
            if first.wrong is None:
                warm = self._warm_up_for_the_trial()
                self._timer.fit(min(warm, default=seconds))
                first = first._replace(warm_seconds=warm)
            return first

    def turn(self) -> list[float]:
        """Warm the caches again, then time a few calls and return their durations."""
        seconds: list[float] = []
        with self._state(), self._pinned():
            self._settle()
            ends = time.perf_counter() + TURN_SECONDS
            while not seconds or time.perf_counter() < ends:
                seconds.append(self._timer.sample(self._rotation)[0])
        self._latest_seconds = seconds[-1]
        return seconds

    def measure(
        self,
        *,
        limits: RowLimits,
        trial_seconds: float | None,
        calls_per_sample: int | None,
        check_first: bool,
    ) -> TurnSamples:
        """Sample for one turn, after a warm-up if it is the first one.

        Args:
            limits: limits for this turn.
            trial_seconds: median duration of the same calls in the trial, or None if there was no
                trial.
            calls_per_sample: the number used in the row's other turns, or None in its first turn.
            check_first: whether to also compare the output of the first call with the reference.
        """
        with self._state():
            cold, kept = None, None
            if self._latest_seconds is None:
                seconds, output = self._cold_call()
                cold = FirstCall(seconds, None, None, changes_inputs=False)
                if check_first:
                    kept = output.detach().to("cpu", copy=True)
                    self._tell("mark", "trial_ended")
                del output
            if calls_per_sample is not None:
                self._timer.calls_per_sample = calls_per_sample
            elif cold is not None:
                self._timer.fit(min(self._warm_up_for_the_trial(), default=cold.seconds))
            turn = self._sample(limits, trial_seconds, WARMUP_SECONDS if cold else 0.0)
            if cold and kept is not None:
                cold = self._checked(cold.seconds, kept)
            return turn._replace(cold=cold)

    def _sample(
        self, limits: RowLimits, trial_seconds: float | None, least_warmup_seconds: float
    ) -> TurnSamples:
        timer, first_turn, warmup_calls = self._timer, not self._samples, 0
        if first_turn:
            with self._pinned():
                warmup_calls = warm_up(self._rotation, timer, limits, least_warmup_seconds)
            self._tell("mark", "steady")
        self._latest_seconds = trial_seconds or self._latest_seconds
        began, report = time.perf_counter(), partial(self._tell, "samples")
        samples = self._samples = []
        for restarts_left in reversed(range(RESTARTS + 1)):
            threads_before, joules_before = thread_times(), self._joules()
            with self._pinned():
                self._settle()
                sampled = sample(self._rotation, timer, limits, samples, report)
            threads_after, joules_after = thread_times(), self._joules()
            reason = unsettled(samples, trial_seconds)
            late = time.perf_counter() - began > RESTART_SHARE * limits.max_seconds
            if late or not restarts_left or not reason:
                break
            warmup_calls += sampled.calls
            samples.clear()
        self._output = sampled.output
        if first_turn:  # before any check, as checks take memory
            self._peak_bytes = memory.peak_bytes(self._problem.device)
        return TurnSamples(
            samples,
            list(sampled.starts),
            sampled.end,
            unrecorded_calls=sampled.calls - len(samples) * timer.calls_per_sample,
            warmup_calls=warmup_calls,
            timer=timer.name,
            calls_per_sample=timer.calls_per_sample,
            resolution_seconds=timer.resolution_seconds,
            stopping=sampled.stopping,
            unsettled=reason,
            cold=None,
            wait_share=wait_share(threads_before, threads_after),
            joules=None if timer.evicted_bytes else _per_call(joules_before, joules_after, sampled),
            evicted_bytes=timer.evicted_bytes,
        )

    def steps_until(self, moment: float, *, calls: int = 1) -> list[float]:
        """Run steps of `calls` calls each, at least one, until a step ends at or after `moment`.

        Returns the time.perf_counter() values at which the steps ended. Other threads in the
        process can run their own steps at the same time, each on its own CUDA stream.
        """
        ends: list[float] = []
        with self._state():
            while not ends or ends[-1] < moment:
                for _ in range(calls):
                    self._output = self._rotation.take()()
                if self._problem.device == "cuda":
                    torch.cuda.current_stream().synchronize()
                ends.append(time.perf_counter())
        return ends

    def look_back(self, *, phases: bool) -> LastLook:
        """Check the last output, and check that no call changed its inputs.

        Args:
            phases: whether to also time the parts of a call, and copies to the device and back.
        """
        output, peak = self._output, self._peak_bytes
        assert output is not None  # noqa: S101
        with self._state():
            correctness, wrong = self._check_last(output)
            return LastLook(
                correctness,
                wrong,
                self._implementation.remark(output),
                self._problem.workload.repeatable and self._changed_inputs(),
                None if peak is None else peak - self._timer.evicted_bytes,
                self._phases(output) if phases else {},
            )

    def _phases(self, output: Tensor) -> dict[str, float]:
        typical = statistics.median(self._samples)
        found = time_device(self._rotation, typical) if typical < LONG_SECONDS else {}
        # Last, as it overwrites the inputs.
        return found | time_transfers(self._host_inputs, self._device_inputs, output)

    def _state(self) -> contextlib.AbstractContextManager[None]:
        return measuring_state(self._problem.workload, self._problem.dtype)

    def _warm_up_for_the_trial(self) -> list[float]:
        """Warm up with a few calls before the trial, if any, and return each one's duration."""
        seconds: list[float] = []
        ends = time.perf_counter() + TRIAL_WARMUP_SECONDS
        with self._pinned():
            while (self._latest_seconds or 0.0) < WARM_SECONDS:
                self._latest_seconds, _ = self._timer.seconds(self._rotation.take())
                seconds.append(self._latest_seconds)
                if time.perf_counter() >= ends:
                    break
        return seconds

    def _settle(self) -> None:
        """Refill the caches with untimed calls after other work has run, unless calls are long.

        Long calls fill the caches with their inputs anyway.
        """
        ends = time.perf_counter() + SETTLE_SECONDS
        while (self._latest_seconds or 0.0) < SETTLE_SECONDS:
            self._timer.seconds(self._rotation.take())
            if time.perf_counter() >= ends:
                return

    def _pinned(self) -> contextlib.AbstractContextManager[None]:
        """Pin the threads that the calls are known to use, each to its own core.

        Long calls are pinned too: they might be long because two threads share a core.
        """
        return contextlib.nullcontext() if self._threads.most == 1 else self._threads.pinned()

    def _cold_call(self) -> tuple[float, Tensor]:
        seconds, output = MonotonicTimer(self._problem.device).seconds(self._rotation.take())
        self._latest_seconds = seconds
        self._tell("mark", "first_call")
        return seconds, output

    def _checked(self, seconds: float, output: Tensor) -> FirstCall:
        changes = self._problem.workload.repeatable and self._changed_inputs()
        if changes:
            return FirstCall(seconds, None, CHANGES_INPUTS, changes)
        correctness, wrong = self._problem.check(self._host_inputs, output, 0)
        return FirstCall(seconds, correctness, wrong, changes)

    def _check_last(self, output: Tensor) -> tuple[Correctness | None, str | None]:
        """Check the last output in the same way as the first one.

        If each call builds on the previous one, only check that the output is finite.
        """
        if not self._problem.workload.repeatable:
            finite = bool(torch.isfinite(output).all())
            return None, None if finite else "it is not finite"
        index = self._rotation.last
        inputs = self._host_inputs
        if index:
            inputs = self._implementation.arrange(self._problem.inputs(index))
        return self._problem.check(inputs, output, index, LAST)

    def _bring(self, input_sets: Iterable[Tensors]) -> Iterator[Tensors]:
        """Arrange each input set and move it to the device, keeping the first set for checks."""
        for index, inputs in enumerate(input_sets):
            arranged = self._implementation.arrange(inputs)
            on_device = arranged
            if self._problem.device == "cuda":
                on_device = tuple(tensor.to("cuda") for tensor in arranged)
            if index == 0:
                self._host_inputs, self._device_inputs = arranged, on_device
                self._untouched = _probe(on_device)
            yield on_device

    def _changed_inputs(self) -> bool:
        """Return whether a call has modified the first input set."""
        return not all(map(torch.equal, self._untouched, _probe(self._device_inputs)))

    def _joules(self) -> float | None:
        """Return the energy that the GPU has used so far, or None if it is unknown."""
        if self._problem.device == "cuda":
            with contextlib.suppress(Exception):
                return nvml.visible_gpus()[0].energy_joules()
        return None


@contextlib.contextmanager
def measuring_state(workload: Workload, dtype: str) -> Iterator[None]:
    """Configure torch and the garbage collector for measuring a workload."""
    gradients = torch.inference_mode(not workload.needs_gradients)
    with no_garbage_collection(), gradients, torch_calls.precision(dtype):
        yield


def _per_call(before: float | None, after: float | None, sampled: Sampled) -> float | None:
    if before is None or after is None or sampled.seconds < ENERGY_SECONDS:
        return None
    return (after - before) / sampled.calls


def _probe(inputs: Tensors) -> Tensors:
    """Copy evenly spaced bytes from each tensor."""
    found = []
    for tensor in inputs:
        memory_bytes = bytes_of(tensor)
        step = len(memory_bytes) // PROBED_BYTES | 1  # odd, to meet every byte of the numbers
        found.append(memory_bytes[::step].clone())
    return tuple(found)
