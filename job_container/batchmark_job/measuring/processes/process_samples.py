"""What a worker answers: its first call, and the samples that it took."""

from __future__ import annotations

from typing import Literal, NamedTuple

from batchmark_job.result import Correctness, Stopping


class FirstCall(NamedTuple):
    """The cold call; `wrong` says what is wrong with its output."""

    seconds: float
    correctness: Correctness | None
    wrong: str | None
    changes_inputs: bool


class ProcessSamples(NamedTuple):
    """What one process measured: warm calls in the order they ran, and the checks after them.

    Moments are of time.perf_counter(), the same clock in all processes of the machine.
    """

    seconds: list[float]
    starts: list[float]
    end: float
    unrecorded_calls: int
    warmup_calls: int
    timer: Literal["monotonic", "cuda_events"]
    resolution_seconds: float
    stopping: Stopping
    unsettled: str | None
    cold: FirstCall
    correctness: Correctness | None  # of the last output
    wrong: str | None
    changed_inputs: bool
    wait_share: float | None
    peak_memory_bytes: int | None
    joules: float | None  # per call; None where something else runs between calls
    evicted_bytes: int  # written between calls
    phases: dict[str, float]
