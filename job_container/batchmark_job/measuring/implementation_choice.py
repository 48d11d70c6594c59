"""Which implementations compute a row correctly, and which of them is the fastest.

Every candidate has a worker of its own and computes on the same inputs, in the layout it likes
best. Its first call is its cold call, whose output is checked; those that pass then take turns, so
that a change of the machine hits all alike. Only the worker whose turn it is runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from batchmark_job.measuring import steps
from batchmark_job.measuring.candidate import LONG_SECONDS, Candidate, Entry
from batchmark_job.measuring.problem import Problem
from batchmark_job.measuring.processes.workers import ForkedWorkers, Hear, StepError, Worker
from batchmark_job.measuring.samples.sample_statistics import median_interval

TRIAL_SHARE = 0.3  # of max_seconds, for the trial of all candidates together
CLOSE_ENOUGH = 0.05  # a choice that is slower than the fastest by less is right
# A candidate is given up when even its fastest call took so many times the leader's median:
HOPELESS = 1.5  # once it is known
HOPELESS_AT_ONCE = 5.0  # before, if two calls or more were so slow, or one that is a long one


def choose_fastest(
    problem: Problem, entry: Entry, seconds: float, workers: ForkedWorkers, hear: Hear
) -> tuple[Candidate | None, Worker | None]:
    """The fastest correct candidate, or the only one, untried; None if there is none.

    Candidates take turns where memory holds them together; then the winner's worker lives on.
    Otherwise each has its time alone.
    """
    competing = [candidate for candidate in entry.candidates if candidate.competes]
    runners: list[_Runner] = []
    if len(competing) > 1:

        def begin(candidate: Candidate) -> _Runner:
            worker = start_prepared(problem, candidate, entry.input_sets, workers, hear)
            return _Runner(candidate, worker)

        if entry.fit_together:
            runners = _hold_together(competing, begin, seconds, on_cpu=problem.device == "cpu")
        else:
            _hold_one_by_one(competing, begin, seconds)
    chosen = _fastest(competing)
    if chosen is not None:
        chosen.outcome = "chosen"
        chosen.cold_seconds = _first_to_call(chosen, competing).cold_seconds
    winner = None
    for runner in runners:
        if runner.candidate is chosen:
            winner = runner.worker
        else:
            runner.worker.end()
    return chosen, winner


@dataclass
class _Runner:
    """A candidate with its worker."""

    candidate: Candidate
    worker: Worker

    def get_ready(self) -> None:
        try:
            self.worker.get_ready()
        except StepError as error:
            self.drop_out(error)

    def take_first_call(self) -> None:
        candidate = self.candidate
        if not candidate.competes:
            return
        try:
            first = self.worker.ask("first_call")
        except StepError as error:
            self.drop_out(error)
            return
        candidate.cold_seconds, candidate.correctness = first.seconds, first.correctness
        candidate.warm_seconds = first.warm_seconds
        if first.changes_inputs:
            candidate.fail(first.wrong)
        elif first.wrong:
            candidate.outcome, candidate.reason = "wrong", first.wrong

    def take_turn(self) -> None:
        self.candidate.turns += 1
        try:
            self.candidate.seconds += self.worker.ask("turn")
        except StepError as error:
            self.drop_out(error)

    def drop_out(self, error: StepError) -> None:
        self.candidate.fail(str(error), out_of_memory=error.out_of_memory)


def _hold_together(
    competing: Sequence[Candidate],
    begin: Callable[[Candidate], _Runner],
    seconds: float,
    *,
    on_cpu: bool,
) -> list[_Runner]:
    runners: list[_Runner] = []
    try:
        for candidate in competing:
            runners.append(begin(candidate))
            if on_cpu:  # several would have more threads than cores
                runners[-1].get_ready()
        for runner in () if on_cpu else runners:
            runner.get_ready()
        for runner in runners:
            runner.take_first_call()
        _race([runner for runner in runners if runner.candidate.competes], seconds)
    except BaseException:
        for runner in runners:
            runner.worker.end()
        raise
    return runners


def _hold_one_by_one(
    competing: Sequence[Candidate], begin: Callable[[Candidate], _Runner], seconds: float
) -> None:
    for candidate in competing:
        runner = begin(candidate)
        try:
            runner.get_ready()
            runner.take_first_call()
            if candidate.competes:
                _run_alone(runner, seconds / len(competing), _fastest(competing))
        finally:
            runner.worker.end()


def start_prepared(
    problem: Problem, candidate: Candidate, input_sets: int, workers: ForkedWorkers, hear: Hear
) -> Worker:
    """A worker that is to hold the candidate's calls."""
    return workers.start(
        steps.prepare, problem, candidate.index, candidate.threads, input_sets, hear=hear
    )


def _first_to_call(chosen: Candidate, competing: Sequence[Candidate]) -> Candidate:
    """Who called this code first: itself, or what a graph captured."""
    for candidate in competing:
        same = (candidate.name, candidate.threads) == (chosen.plain, chosen.threads)
        if same and candidate.cold_seconds is not None:
            return candidate
    return chosen


def _race(runners: list[_Runner], seconds: float) -> None:
    ends = time.perf_counter() + seconds
    runners = _with_a_chance(runners)
    while runners:
        for runner in runners:
            runner.take_turn()
        runners = _with_a_chance(runners)
        if len(runners) < 2:
            return
        candidates = [runner.candidate for runner in runners]
        known = all(candidate.is_known for candidate in candidates)
        if known and (time.perf_counter() >= ends or _decided(candidates)):
            return


def _with_a_chance(runners: Sequence[_Runner]) -> list[_Runner]:
    """Those that still compete and may be the fastest."""
    competing = [runner for runner in runners if runner.candidate.competes]
    leader = min((each.candidate for each in competing), key=lambda c: c.level, default=None)
    return [each for each in competing if leader and not _hopeless(each.candidate, leader)]


def _run_alone(runner: _Runner, seconds: float, leader: Candidate | None) -> None:
    candidate = runner.candidate
    rival = None if leader is candidate else leader
    ends = time.perf_counter() + seconds
    while not candidate.is_known or time.perf_counter() < ends:
        runner.take_turn()
        if not candidate.competes or (rival and rival.seconds and _hopeless(candidate, rival)):
            return


def _hopeless(candidate: Candidate, leader: Candidate) -> bool:
    fastest = candidate.fastest
    if candidate.is_known:
        return fastest > HOPELESS * leader.level
    calls = len(candidate.seconds) + (candidate.warm_seconds is not None)
    shortest = 0.0 if calls > 1 else LONG_SECONDS
    return calls > 0 and fastest > max(HOPELESS_AT_ONCE * leader.level, shortest)


def _decided(candidates: Sequence[Candidate]) -> bool:
    """Whether nobody can be faster than the leader by more than CLOSE_ENOUGH."""
    leader = min(candidates, key=lambda candidate: candidate.median)
    best = median_interval(leader.seconds)
    others = [median_interval(each.seconds) for each in candidates if each is not leader]
    return best is not None and all(
        other is not None and other.low * (1 + CLOSE_ENOUGH) >= best.high for other in others
    )


def _fastest(competing: Sequence[Candidate]) -> Candidate | None:
    """Of several the fastest that is right; a lone one, which is checked when it is measured."""
    if len(competing) == 1:
        return competing[0] if competing[0].competes else None
    correct = [each for each in competing if each.competes and each.correctness]
    timed = [each for each in correct if each.seconds]
    return min(timed, key=lambda each: each.median) if timed else next(iter(correct), None)
