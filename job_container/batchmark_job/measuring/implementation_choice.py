"""Which implementations compute a row correctly, and which of them is the fastest.

Every candidate computes on the same inputs, in the layout it likes best. Its first call is its cold
call, whose output is checked; those that pass then take turns, so that a change of the machine hits
all alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from batchmark_job.machine import memory
from batchmark_job.machine.threads import set_threads
from batchmark_job.measuring.candidate import CHANGES_INPUTS, SETTLING_BELOW_SECONDS, Candidate
from batchmark_job.measuring.marks import Mark
from batchmark_job.measuring.problem import Problem
from batchmark_job.measuring.sample_statistics import median_interval
from batchmark_job.measuring.sampling import Timer

if TYPE_CHECKING:
    from batchmark_job.workloads.base import Tensors

MOST_INPUT_SETS = 64
CACHES_FILLED = 2  # by all input sets together

TRIAL_SHARE = 0.3  # of max_seconds, for the trial of all candidates together
CLOSE_ENOUGH = 0.05  # a choice that is slower than the fastest by less is right
# A candidate is given up when even its fastest call took so many times the leader's median:
HOPELESS = 1.5  # once it is known
HOPELESS_AT_ONCE = 5.0  # before, where calls take so long that the scheduler is not to blame


def candidates(problem: Problem, thread_counts: Sequence[int]) -> list[Candidate]:
    """Every implementation with every number of threads; what can't compute the row is refused."""
    on_cpu = problem.device == "cpu"
    found = []
    for implementation in problem.workload.implementations_for(problem.device):
        counts: Sequence[int | None] = thread_counts if on_cpu else [None]
        if on_cpu and implementation.single_threaded:
            counts = [1]
        refusal = implementation.refusal(problem.device, problem.dtype)
        too_large = None
        if refusal is None:
            too_large = memory.shortage(
                problem.workload, implementation, problem.parameters, problem.dtype, problem.device
            )
        reason = refusal or too_large
        for threads in counts[:1] if reason else counts:
            candidate = Candidate(implementation, threads)
            if reason:
                candidate.refuse(reason, out_of_memory=too_large is not None)
            found.append(candidate)
    return found


def input_sets(problem: Problem, entered: Sequence[Candidate], cache_bytes: int | None) -> int:
    """How many inputs it takes to fill the last-level cache CACHES_FILLED times.

    MOST_INPUT_SETS where that is not enough; one where a single set does it, where the cache's size
    is unknown, or where memory is short.
    """
    set_bytes = problem.input_bytes()
    wanted = min(MOST_INPUT_SETS, CACHES_FILLED * (cache_bytes or 0) // max(1, set_bytes) + 1)
    fits = memory.has_room(wanted * _bytes_together(problem, entered), problem.device)
    return wanted if fits else 1


def choose_fastest(
    problem: Problem,
    entered: Sequence[Candidate],
    sets: int,
    timer: Timer,
    seconds: float,
    mark: Callable[[Mark], None],
) -> Candidate | None:
    """The fastest correct candidate, its calls prepared; None if there is none.

    Candidates take turns where memory holds them together; otherwise each has its time alone.
    """
    competing = [candidate for candidate in entered if candidate.competes]
    contest = _Contest(competing, problem, sets, timer, seconds, mark)
    if memory.has_room(sets * _bytes_together(problem, competing), problem.device):
        contest.hold_together()
    else:
        contest.hold_one_by_one()
    chosen = _fastest(competing)
    if chosen is None:
        return None
    chosen.outcome = "chosen"
    for candidate in competing:
        if candidate is not chosen:
            candidate.free()
    if chosen.rotation is None:
        chosen.prepare(problem, contest.inputs())
    elif chosen.threads is not None:
        set_threads(chosen.threads)
    chosen.cold_seconds = _first_to_call(chosen, competing).cold_seconds
    return chosen


@dataclass(frozen=True)
class _Contest:
    """The trial of a row's candidates, and the seconds that it may take."""

    competing: Sequence[Candidate]
    problem: Problem
    sets: int
    timer: Timer
    seconds: float
    mark: Callable[[Mark], None]

    def inputs(self) -> Iterator[Tensors]:
        return map(self.problem.inputs, range(self.sets))

    def hold_together(self) -> None:
        shared = list(self.inputs())
        for candidate in self.competing:
            candidate.try_first_call(self.problem, shared, self.mark)
            if candidate.reason == CHANGES_INPUTS:
                shared = list(self.inputs())
        _race([each for each in self.competing if each.competes], self.timer, self.seconds)

    def hold_one_by_one(self) -> None:
        share = self.seconds / max(1, len(self.competing))
        for candidate in self.competing:
            candidate.try_first_call(self.problem, self.inputs(), self.mark)
            if candidate.competes and len(self.competing) > 1:
                _run_alone(candidate, self.timer, share, _fastest(self.competing))
            candidate.free()
            memory.release(self.problem.device)


def _first_to_call(chosen: Candidate, competing: Sequence[Candidate]) -> Candidate:
    """Who called this code first: the same with other threads, or what a graph captured."""
    for candidate in competing:
        same_code = candidate.implementation.name == chosen.implementation.plain().name
        if same_code and candidate.cold_seconds is not None:
            return candidate
    return chosen


def _race(runners: list[Candidate], timer: Timer, seconds: float) -> None:
    ends = time.perf_counter() + seconds
    switch_threads = len({runner.threads for runner in runners}) > 1
    while len(runners) > 1:
        for runner in runners:
            if switch_threads and runner.threads is not None:
                set_threads(runner.threads)
            runner.try_turn(timer)
        runners = _with_a_chance(runners)
        known = len(runners) > 1 and all(runner.is_known for runner in runners)
        if known and (time.perf_counter() >= ends or _decided(runners)):
            return


def _with_a_chance(runners: Sequence[Candidate]) -> list[Candidate]:
    """Those that still compete and may be the fastest."""
    competing = [each for each in runners if each.competes]
    leader = min(competing, key=lambda each: each.median, default=None)
    return [each for each in competing if leader and not _hopeless(each, leader)]


def _run_alone(runner: Candidate, timer: Timer, seconds: float, leader: Candidate | None) -> None:
    rival = None if leader is runner else leader
    ends = time.perf_counter() + seconds
    while not runner.is_known or time.perf_counter() < ends:
        runner.try_turn(timer)
        if not runner.competes or (rival and _hopeless(runner, rival)):
            return


def _hopeless(runner: Candidate, leader: Candidate) -> bool:
    fastest = min(runner.seconds)
    if runner.is_known:
        return fastest > HOPELESS * leader.median
    return fastest > max(HOPELESS_AT_ONCE * leader.median, SETTLING_BELOW_SECONDS)


def _decided(runners: Sequence[Candidate]) -> bool:
    """Whether nobody can be faster than the leader by more than CLOSE_ENOUGH."""
    leader = min(runners, key=lambda runner: runner.median)
    best = median_interval(leader.seconds)
    others = [median_interval(runner.seconds) for runner in runners if runner is not leader]
    return best is not None and all(
        other is not None and other.low * (1 + CLOSE_ENOUGH) >= best.high for other in others
    )


def _fastest(competing: Sequence[Candidate]) -> Candidate | None:
    correct = [each for each in competing if each.competes and each.correctness]
    timed = [each for each in correct if each.seconds]
    return min(timed, key=lambda each: each.median) if timed else next(iter(correct), None)


def _bytes_together(problem: Problem, entered: Sequence[Candidate]) -> int:
    """What one input set takes with all candidates prepared for it."""
    return problem.input_bytes() + sum(
        candidate.implementation.working_set_bytes(problem.parameters, problem.dtype)
        for candidate in entered
        if candidate.competes
    )
