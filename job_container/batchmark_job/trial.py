"""The rivals' trial: which implementations compute a row rightly, and which of them is fastest.

Every rival computes on the same inputs, arranged to its own liking. Its first call is its cold call
and is checked; those that pass then race in turns, so that a change of the machine hits all alike.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from batchmark_job import memory
from batchmark_job.exceptions import first_line, one_line
from batchmark_job.result import Correctness, Implementation, Trial
from batchmark_job.sample_statistics import median_interval
from batchmark_job.sampling import MonotonicTimer, Rotation
from batchmark_job.threads import give_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from torch import Tensor

    from batchmark_job.marks import Mark
    from batchmark_job.sampling import Timer
    from batchmark_job.workloads.base import Call, Tensors, Workload
    from batchmark_job.workloads.base import Implementation as Rival

SEED = 20261101

MOST_INPUT_SETS = 64
CACHES_FILLED = 2  # by all input sets together

TRIAL_SHARE = 0.3  # of max_seconds, for the race of all rivals together
TURN_SECONDS = 0.01
# After another library's turn its idle threads still spin for a few milliseconds.
SETTLING_SECONDS = 0.005
SETTLING_BELOW_SECONDS = 0.05  # longer calls hardly notice
FEWEST_CALLS = 3
# Two threads that meet on one core take ten times as long or more, for a whole turn.
FEWEST_TURNS = 3  # of short calls
CLOSE_ENOUGH = 0.05  # choosing a rival slower by less is right
# A rival is given up when even its fastest call took so many times the leader's median:
HOPELESS = 1.5  # once it is known
HOPELESS_AT_ONCE = 5.0  # before, where calls take so long that the scheduler is not to blame

PROBED_BYTES = 1 << 20  # of each input, evenly spread, to tell whether calls change it
CHANGES_INPUTS = "its calls change their inputs, so that each would be timed on other data"

# Where the libraries raise no MemoryError of their own; torch's allocator for the CPU is the first.
OUT_OF_MEMORY = (
    "can't allocate",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUFFT_ALLOC_FAILED",
    "Insufficient memory",  # OpenCV's
)


@dataclass(frozen=True)
class Problem:
    """What the rivals of one row compute, and where."""

    workload: Workload
    parameters: Mapping[str, int]
    dtype: str
    device: str

    def inputs(self, index: int) -> Tensors:
        """The input set of this index, in host memory; the same whenever it is made."""
        return self.workload.make_inputs(self.parameters, self.dtype, SEED + index)

    def input_bytes(self) -> int:
        return self.workload.input_bytes(self.parameters, self.dtype)

    def check(
        self, inputs: Tensors, output: Tensor, *draw: int
    ) -> tuple[Correctness | None, str | None]:
        """The output against the float64 reference; and what is wrong with it, None if nothing.

        `draw` numbers the check: each looks at another part of the output.
        """
        rng = np.random.default_rng((SEED, *draw))
        error = self.workload.relative_error(inputs, output, rng)
        if not np.isfinite(error):
            return None, f"it contains {error}"
        tolerance = self.workload.tolerance(self.dtype)
        correctness = Correctness(relative_error=error, tolerance=tolerance)
        if correctness.passed:
            return correctness, None
        return correctness, f"relative error {error:.2g}, {self.dtype} allows {tolerance:g}"


@dataclass
class Contestant:
    """One rival with one number of threads; `threads` is None on CUDA."""

    rival: Rival
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
    untouched: Tensors = ()  # what _probe() gave before the first call
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
        """Median of its calls in the trial; None where it had no rival."""
        return self.median if self.seconds else None

    def implementation(self) -> Implementation:
        version = "unknown" if self.outcome == "refused" else self.rival.version()
        return Implementation(name=self.rival.name, version=version, threads=self.threads)

    def trial(self) -> Trial:
        return Trial(
            implementation=self.implementation(),
            outcome=self.outcome,
            reason=self.reason,
            median_seconds=self.trial_seconds,
            calls=len(self.seconds),
            correctness=self.correctness,
        )

    def refuse(self, reason: str, *, out_of_memory: bool = False) -> None:
        self.outcome, self.reason, self.out_of_memory = "refused", reason, out_of_memory

    def fail(self, error: Exception) -> None:
        self.outcome, self.out_of_memory = "failed", is_out_of_memory(error)
        self.reason = describe_error(error)
        self.leave()

    def enter(self, problem: Problem, input_sets: Iterable[Tensors]) -> list[Call]:
        """Bring the inputs to the device and prepare a call for each set."""
        if self.threads is not None:
            give_threads(self.threads)
        calls = list(self.rival.prepare_each(self._brought(problem, input_sets)))
        self.rotation = Rotation(calls)
        return calls

    def _brought(self, problem: Problem, input_sets: Iterable[Tensors]) -> Iterator[Tensors]:
        """Each set arranged and on the device; the first is kept."""
        for index, inputs in enumerate(input_sets):
            arranged = self.rival.arrange(inputs)
            on_device = self._to_device(arranged) if problem.device == "cuda" else arranged
            if index == 0:
                self.host_inputs, self.device_inputs = arranged, on_device
                self.untouched = _probe(on_device)
            yield on_device

    def leave(self) -> None:
        """Give all memory back."""
        self.rotation, self.host_inputs, self.device_inputs = None, (), ()
        self.untouched = ()

    def changed_inputs(self) -> bool:
        """Whether a call wrote into the first input set."""
        import torch

        return not all(map(torch.equal, self.untouched, _probe(self.device_inputs)))

    def first_call(self, problem: Problem, mark: Callable[[Mark], None]) -> None:
        """Make the cold call and check what it gave, and that it left its inputs alone."""
        assert self.rotation is not None  # noqa: S101
        mark("inputs_ready")
        seconds, output = MonotonicTimer(problem.device).seconds(self.rotation.take())
        mark("first_call")
        self.cold_seconds = seconds
        if problem.workload.repeatable and self.changed_inputs():
            self.outcome, self.reason = "failed", CHANGES_INPUTS
            self.leave()
            return
        self.correctness, wrong = problem.check(self.host_inputs, output, self.rotation.last)
        if wrong:
            self.outcome, self.reason = "wrong", wrong
            self.leave()

    def turn(self, timer: Timer) -> None:
        """Time a few calls."""
        assert self.rotation is not None  # noqa: S101
        self.turns += 1
        take_turn(self.rotation, timer, self.seconds, self.cold_seconds or 0.0)

    def _to_device(self, inputs: Tensors) -> Tensors:
        return tuple(tensor.to("cuda") for tensor in inputs)


def take_turn(rotation: Rotation, timer: Timer, samples: list[float], first: float) -> None:
    """Append a few calls' seconds, after a few calls that let another's turn fade away.

    Args:
        first: seconds that a call took before there are samples.
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
    """A sample of the memory of each, in whatever layout and of whatever dtype."""
    import torch

    found = []
    for tensor in inputs:
        memory_bytes = torch.empty(0, dtype=torch.uint8, device=tensor.device)
        memory_bytes.set_(tensor.untyped_storage())
        step = len(memory_bytes) // PROBED_BYTES | 1  # odd, to meet every byte of the numbers
        found.append(memory_bytes[::step].clone())
    return tuple(found)


def contestants(problem: Problem, thread_counts: Sequence[int]) -> list[Contestant]:
    """Every rival with every number of threads; those that can't compute the row are refused."""
    on_cpu = problem.device == "cpu"
    found = []
    for rival in problem.workload.rivals(problem.device):
        counts: Sequence[int | None] = thread_counts if on_cpu else [None]
        if on_cpu and rival.single_threaded:
            counts = [1]
        refusal = rival.refusal(problem.device, problem.dtype)
        too_large = None
        if refusal is None:
            too_large = memory.shortage(
                problem.workload, rival, problem.parameters, problem.dtype, problem.device
            )
        reason = refusal or too_large
        for threads in counts[:1] if reason else counts:
            contestant = Contestant(rival, threads)
            if reason:
                contestant.refuse(reason, out_of_memory=too_large is not None)
            found.append(contestant)
    return found


def input_sets(problem: Problem, rivals: Sequence[Contestant], cache_bytes: int | None) -> int:
    """How many inputs it takes to fill the last-level cache CACHES_FILLED times.

    MOST_INPUT_SETS where that is not enough; one where a set alone does so, where the cache is
    unknown, or where memory is too short.
    """
    set_bytes = problem.input_bytes()
    wanted = min(MOST_INPUT_SETS, CACHES_FILLED * (cache_bytes or 0) // max(1, set_bytes) + 1)
    return (
        wanted if memory.has_room(wanted * _together_bytes(problem, rivals), problem.device) else 1
    )


def hold_trial(
    problem: Problem,
    rivals: Sequence[Contestant],
    sets: int,
    timer: Timer,
    seconds: float,
    mark: Callable[[Mark], None],
) -> Contestant | None:
    """Choose the fastest correct rival, entered and ready to be called; None if there is none.

    All take turns where memory holds them together; else one comes after the other.
    """
    running = [rival for rival in rivals if rival.competes]
    if memory.has_room(sets * _together_bytes(problem, running), problem.device):
        shared = [problem.inputs(index) for index in range(sets)]
        for rival in running:
            _try_first_call(rival, problem, shared, mark)
            if rival.reason == CHANGES_INPUTS:
                shared = [problem.inputs(index) for index in range(sets)]
        _race([rival for rival in running if rival.competes], timer, seconds)
    else:
        for rival in running:
            _try_first_call(rival, problem, map(problem.inputs, range(sets)), mark)
            if rival.competes and len(running) > 1:
                _race_alone(rival, timer, seconds / len(running), _fastest(running))
            rival.leave()
            memory.release(problem.device)
    chosen = _fastest(running)
    if chosen is None:
        return None
    chosen.outcome = "chosen"
    for rival in running:
        if rival is not chosen:
            rival.leave()
    if chosen.rotation is None:
        chosen.enter(problem, map(problem.inputs, range(sets)))
    elif chosen.threads is not None:
        give_threads(chosen.threads)
    chosen.cold_seconds = _first_in_process(chosen, running).cold_seconds
    return chosen


def _first_in_process(chosen: Contestant, rivals: Sequence[Contestant]) -> Contestant:
    """Who called this code first: the same with other threads, or what a graph captured."""
    for rival in rivals:
        same_code = rival.rival.name == chosen.rival.plain().name
        if same_code and rival.cold_seconds is not None:
            return rival
    return chosen


def _try_first_call(
    rival: Contestant,
    problem: Problem,
    inputs: Iterable[Tensors],
    mark: Callable[[Mark], None],
) -> None:
    try:
        rival.enter(problem, inputs)
        rival.first_call(problem, mark)
    except Exception as error:
        rival.fail(error)


def _race(runners: list[Contestant], timer: Timer, seconds: float) -> None:
    started = time.perf_counter()
    switch_threads = len({rival.threads for rival in runners}) > 1
    while len(runners) > 1:
        for rival in runners:
            if switch_threads and rival.threads is not None:
                give_threads(rival.threads)
            _try_turn(rival, timer)
        runners = [rival for rival in runners if rival.competes]
        leader = min(runners, key=lambda rival: rival.median, default=None)
        if leader is None:
            return
        runners = [rival for rival in runners if not _hopeless(rival, leader)]
        late = time.perf_counter() - started >= seconds
        if all(rival.is_known for rival in runners) and (late or _decided(runners, leader)):
            return


def _race_alone(rival: Contestant, timer: Timer, seconds: float, leader: Contestant | None) -> None:
    started = time.perf_counter()
    while rival.competes:
        _try_turn(rival, timer)
        if leader is not None and leader is not rival and _hopeless(rival, leader):
            return
        late = time.perf_counter() - started >= seconds
        if late and rival.is_known:
            return


def _try_turn(rival: Contestant, timer: Timer) -> None:
    try:
        rival.turn(timer)
    except Exception as error:
        rival.fail(error)


def _hopeless(rival: Contestant, leader: Contestant) -> bool:
    fastest = min(rival.seconds)
    if rival.is_known:
        return fastest > HOPELESS * leader.median
    return fastest > max(HOPELESS_AT_ONCE * leader.median, SETTLING_BELOW_SECONDS)


def _decided(runners: Sequence[Contestant], leader: Contestant) -> bool:
    """Whether no rival can be faster than the leader by more than CLOSE_ENOUGH."""
    best = median_interval(leader.seconds)
    others = [median_interval(rival.seconds) for rival in runners if rival is not leader]
    return best is not None and all(
        other is not None and other.low * (1 + CLOSE_ENOUGH) >= best.high for other in others
    )


def _fastest(rivals: Sequence[Contestant]) -> Contestant | None:
    correct = [rival for rival in rivals if rival.competes and rival.correctness]
    timed = [rival for rival in correct if rival.seconds]
    return min(timed, key=lambda rival: rival.median) if timed else next(iter(correct), None)


def _together_bytes(problem: Problem, rivals: Sequence[Contestant]) -> int:
    """What one input set takes with all rivals prepared for it."""
    return problem.input_bytes() + sum(
        rival.rival.working_set_bytes(problem.parameters, problem.dtype)
        for rival in rivals
        if rival.competes
    )


def is_out_of_memory(error: BaseException) -> bool:
    import torch

    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return any(text in str(error) for text in OUT_OF_MEMORY)


def describe_error(error: BaseException) -> str:
    """One line; out of memory is told apart, since it is no fault of the code."""
    if is_out_of_memory(error):
        return f"out of memory when tried: {first_line(error)}"
    return one_line(error)
