"""One implementation with one number of threads, while a row's implementation is chosen."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch

from batchmark_job.machine.memory import describe_error, is_out_of_memory
from batchmark_job.machine.threads import set_threads
from batchmark_job.measuring.marks import Mark
from batchmark_job.measuring.problem import Problem
from batchmark_job.measuring.sampling import MonotonicTimer, Rotation, Timer
from batchmark_job.result import MOST_CHARACTERS, Correctness, Trial
from batchmark_job.result import Implementation as ImplementationRecord

if TYPE_CHECKING:
    from batchmark_job.workloads.base import Call, Implementation, Tensors

TURN_SECONDS = 0.01
# After another library's turn its idle threads still spin for a few milliseconds.
SETTLING_SECONDS = 0.005
SETTLING_BELOW_SECONDS = 0.05  # longer calls hardly notice
FEWEST_CALLS = 3
# Two threads that meet on one core take ten times as long or more, for a whole turn.
FEWEST_TURNS = 3  # of short calls

PROBED_BYTES = 1 << 20  # of each input, evenly spread, to tell whether calls change it
CHANGES_INPUTS = "its calls change their inputs, so that each would be timed on other data"


@dataclass
class Candidate:
    """An implementation in the trial, with its calls and what became of it.

    `threads` is None on CUDA. A reason means that it is out.
    """

    implementation: Implementation
    threads: int | None
    outcome: Literal["chosen", "slower", "wrong", "failed", "refused"] = "slower"
    reason: str | None = None
    out_of_memory: bool = False
    correctness: Correctness | None = None
    cold_seconds: float | None = None
    seconds: list[float] = field(default_factory=list)
    turns: int = 0
    host_inputs: Tensors = ()
    device_inputs: Tensors = ()
    untouched: Tensors = ()  # _probe() of the first input set, before the first call
    rotation: Rotation | None = None

    @property
    def competes(self) -> bool:
        return self.reason is None

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def is_known(self) -> bool:
        """Whether it was called often enough to be compared with others."""
        if len(self.seconds) < FEWEST_CALLS:
            return False
        return self.turns >= FEWEST_TURNS or min(self.seconds) >= SETTLING_BELOW_SECONDS

    @property
    def trial_seconds(self) -> float | None:
        """Median of its calls in the trial; None where it was the only candidate."""
        return self.median if self.seconds else None

    @property
    def calls(self) -> Rotation:
        """The prepared calls.

        Raises:
            RuntimeError: nothing is prepared.
        """
        if self.rotation is None:
            raise RuntimeError(f"{self.implementation.name} has no calls prepared")
        return self.rotation

    def implementation_record(self) -> ImplementationRecord:
        version = "unknown" if self.outcome == "refused" else self.implementation.version()
        return ImplementationRecord(
            name=self.implementation.name, version=version, threads=self.threads
        )

    def trial_record(self) -> Trial:
        return Trial(
            implementation=self.implementation_record(),
            outcome=self.outcome,
            reason=self.reason and self.reason[:MOST_CHARACTERS],
            median_seconds=self.trial_seconds,
            calls=len(self.seconds),
            correctness=self.correctness,
        )

    def refuse(self, reason: str, *, out_of_memory: bool = False) -> None:
        self.outcome, self.reason, self.out_of_memory = "refused", reason, out_of_memory

    def prepare(self, problem: Problem, input_sets: Iterable[Tensors]) -> list[Call]:
        """Bring the inputs to the device and prepare a call for each set."""
        if self.threads is not None:
            set_threads(self.threads)
        on_device = self._bring(problem, input_sets)
        calls = list(self.implementation.prepare_each(on_device))
        self.rotation = Rotation(calls)
        return calls

    def _bring(self, problem: Problem, input_sets: Iterable[Tensors]) -> Iterator[Tensors]:
        """Each set arranged and on the device; the first one is kept."""
        for index, inputs in enumerate(input_sets):
            arranged = self.implementation.arrange(inputs)
            on_device = arranged
            if problem.device == "cuda":
                on_device = tuple(tensor.to("cuda") for tensor in arranged)
            if index == 0:
                self.host_inputs, self.device_inputs = arranged, on_device
                self.untouched = _probe(on_device)
            yield on_device

    def free(self) -> None:
        self.rotation, self.host_inputs, self.device_inputs = None, (), ()
        self.untouched = ()

    def changed_inputs(self) -> bool:
        """Whether a call wrote into the first input set."""
        return not all(map(torch.equal, self.untouched, _probe(self.device_inputs)))

    def try_first_call(
        self, problem: Problem, input_sets: Iterable[Tensors], mark: Callable[[Mark], None]
    ) -> None:
        """Make the cold call; check its output, and that it left its inputs alone."""
        try:
            self.prepare(problem, input_sets)
            mark("inputs_ready")
            self.cold_seconds, output = MonotonicTimer(problem.device).seconds(self.calls.take())
            mark("first_call")
            if problem.workload.repeatable and self.changed_inputs():
                self._drop_out("failed", CHANGES_INPUTS)
                return
            self.correctness, wrong = problem.check(self.host_inputs, output, self.calls.last)
            if wrong:
                self._drop_out("wrong", wrong)
        except Exception as error:
            self._fail(error)

    def try_turn(self, timer: Timer) -> None:
        self.turns += 1
        try:
            take_turn(self.calls, timer, self.seconds, self.cold_seconds or 0.0)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.out_of_memory = is_out_of_memory(error)
        self._drop_out("failed", describe_error(error))

    def _drop_out(self, outcome: Literal["wrong", "failed"], reason: str) -> None:
        self.outcome, self.reason = outcome, reason
        self.free()


def take_turn(rotation: Rotation, timer: Timer, samples: list[float], first: float) -> None:
    """Append the seconds of a few calls, once the effects of another's turn have faded.

    Where there are no samples yet, a call took `first` seconds.
    """
    settled = time.perf_counter() + SETTLING_SECONDS
    latest = samples[-1] if samples else first
    while latest < SETTLING_BELOW_SECONDS and time.perf_counter() < settled:
        latest = timer.seconds(rotation.take())[0]
    ends = time.perf_counter() + TURN_SECONDS
    while True:
        samples.append(timer.seconds(rotation.take())[0])
        if time.perf_counter() >= ends:
            return


def _probe(inputs: Tensors) -> Tensors:
    """A sample of each tensor's memory, whatever its layout and dtype."""
    found = []
    for tensor in inputs:
        memory_bytes = torch.empty(0, dtype=torch.uint8, device=tensor.device)
        memory_bytes.set_(tensor.untyped_storage())
        step = len(memory_bytes) // PROBED_BYTES | 1  # odd, to meet every byte of the numbers
        found.append(memory_bytes[::step].clone())
    return tuple(found)
