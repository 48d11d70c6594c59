"""What a worker reports: the first call, the samples of each turn, and the final checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from batchmark_job.result.document import Correctness, Stopping


class FirstCall(NamedTuple):
    """The result of the first (cold) call; `wrong` says why it failed its checks, if it did."""

    seconds: float
    correctness: Correctness | None
    wrong: str | None
    changes_inputs: bool
    warm_seconds: Sequence[float] = ()  # of the calls to warm up, if there were any


class TurnSamples(NamedTuple):
    """The samples that one process took in one turn: warm calls, in the order in which they ran.

    `starts` and `end` are from time.perf_counter(), the same clock in all processes on a machine.
    """

    seconds: list[float]
    starts: list[float]
    end: float
    unrecorded_calls: int
    warmup_calls: int
    timer: Literal["monotonic", "cuda_events"]
    calls_per_sample: int
    resolution_seconds: float
    stopping: Stopping
    unsettled: str | None
    cold: FirstCall | None  # None unless this turn began with the cold call
    wait_share: float | None
    joules: float | None  # per call; None if something else runs between calls
    evicted_bytes: int  # written between calls


class LastLook(NamedTuple):
    """The results of a process's final checks; `wrong` and `remark` are about its last output."""

    correctness: Correctness | None
    wrong: str | None
    remark: str | None
    changed_inputs: bool
    peak_memory_bytes: int | None
    phases: dict[str, float]
