"""Finds a row's fastest correct implementation, and that implementation's best thread count.

Every candidate has its own worker and computes on the same inputs, in the layout it prefers. Its
first call is its cold call, whose output is checked. An implementation is tried with one thread
count after another for as long as that pays off. Then the best candidates take turns, so that a
change in the machine's speed affects all of them alike. Only the worker whose turn it is runs.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from batchmark_job.measuring import steps
from batchmark_job.measuring.candidate import MOST_HELD, Candidate, Entry, by_implementation
from batchmark_job.measuring.neighbours import Start
from batchmark_job.measuring.problem import Problem
from batchmark_job.measuring.processes.workers import ForkedWorkers, Hear, StepError, Worker
from batchmark_job.measuring.samples.sample_statistics import median_interval

TRIAL_SHARE = 0.3  # share of max_seconds, for the trial of all candidates together
CLOSE_ENOUGH = 0.05  # a choice slower than the fastest by less than this is right
# How much faster several threads must be than one to be chosen: their time depends on more than a
# trial shows (an FFT of 35 us, equal in its trial, took 1.29 times as long on both of two cores).
THREADS_GAIN = 0.03
# A candidate is dropped when it takes this many times as long as the leader:
HOPELESS = 1.25  # by their medians, once known
HOPELESS_AT_ONCE = 5.0  # by its fastest call, before that
LONGEST_NOISE_SECONDS = 0.2  # longest stall of a call: no single shorter call drops a candidate
# How much slower than the best thread count so far the next one may be for the climb to go on.
STILL_CLOSE = 1.4
GAIN = 1.5  # how much faster a thread count must be for a hopeless climb to go on


def choose_fastest(
    problem: Problem,
    entry: Entry,
    seconds: float,
    workers: ForkedWorkers,
    hear: Hear,
    start: Start | None = None,
) -> tuple[Candidate | None, Worker | None]:
    """Return the fastest correct candidate, if any, and its worker if it is still alive.

    Candidates take turns if memory can hold them all, and the winner's worker stays alive.
    Otherwise, each is timed alone. A single candidate is chosen without being tried.

    Args:
        seconds: total time for all candidates' turns.
        start: thread counts to start with, or None to start with the largest.
    """
    competing = [candidate for candidate in entry.candidates if candidate.competes]
    held: list[_Runner] = []
    if len(competing) > 1:

        def begin(candidate: Candidate) -> _Runner:
            worker = start_prepared(problem, candidate, entry.input_sets, workers, hear)
            return _Runner(candidate, worker)

        trial = _Trial(_ladders(competing, start), begin, seconds)
        if entry.fit_together:
            trial.hold_together(on_cpu=problem.device == "cpu")
        else:
            trial.hold_one_by_one()
        held = trial.held
    chosen = _fastest([runner.candidate for runner in held] or competing)
    if chosen is not None:
        chosen.outcome = "chosen"
        chosen.cold_seconds = _first_to_call(chosen, competing).cold_seconds
    winner = None
    for runner in held:
        if runner.candidate is chosen:
            winner = runner.worker
        else:
            runner.worker.end()
    return chosen, winner


@dataclass
class _Runner:
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
        if first.wrong:
            candidate.drop("failed" if first.changes_inputs else "wrong", first.wrong)

    def take_turn(self) -> None:
        self.candidate.turns += 1
        try:
            self.candidate.seconds += self.worker.ask("turn")
        except StepError as error:
            self.drop_out(error)

    def drop_out(self, error: StepError) -> None:
        self.candidate.drop("failed", str(error), out_of_memory=error.out_of_memory)


@dataclass
class _Ladder:
    """The thread counts to try for an implementation: a first one, then others in one direction."""

    first: Candidate
    others: Sequence[Candidate]

    @property
    def rungs(self) -> list[Candidate]:
        return [self.first, *self.others]

    def climb(self, attempt: Callable[[Candidate], None], trial: _Trial) -> None:
        """Try one thread count after another for as long as that pays off."""
        best = self.first
        attempt(best)
        for rung in self.others if best.competes else ():
            attempt(rung)
            leader = trial.leader
            if not (rung.competes and leader and _goes_on(rung, best, leader)):
                return
            best = min(best, rung, key=lambda each: each.fastest)


def _goes_on(rung: Candidate, best: Candidate, leader: Candidate) -> bool:
    """Return whether to try the next count; far behind the leader, only a big gain justifies it."""
    if rung.fastest > HOPELESS_AT_ONCE * leader.level:
        return rung.fastest * GAIN <= best.fastest
    return rung.fastest <= STILL_CLOSE * best.fastest


def _ladders(competing: Sequence[Candidate], start: Start | None) -> list[_Ladder]:
    ladders = []
    for rungs in by_implementation(competing):
        rungs.sort(key=lambda rung: -(rung.threads or 0))
        wanted = start.threads.get(rungs[0].name) if start else None
        first = next((n for n, rung in enumerate(rungs) if rung.threads == wanted), None)
        if start is None or first is None:
            ladders.append(_Ladder(rungs[0], rungs[1:]))
        else:
            more, fewer = rungs[:first][::-1], rungs[first + 1 :]
            ladders.append(_Ladder(rungs[first], more if start.then == "more" else fewer))
    return ladders


@dataclass
class _Trial:
    """A row's trial: all candidates, and those that currently have a worker."""

    ladders: Sequence[_Ladder]
    begin: Callable[[Candidate], _Runner]
    seconds: float
    held: list[_Runner] = field(default_factory=list)

    @property
    def candidates(self) -> list[Candidate]:
        return [candidate for ladder in self.ladders for candidate in ladder.rungs]

    @property
    def patience(self) -> float:
        """Duration beyond which a single call is enough to drop a candidate."""
        spent = sum(sum(candidate.seconds) for candidate in self.candidates)
        return max(self.seconds - spent, LONGEST_NOISE_SECONDS)

    @property
    def leader(self) -> Candidate | None:
        """The best candidate that has a worker, or the best of all if each is timed alone."""
        runners = [runner.candidate for runner in self.held] or self.candidates
        competing = (each for each in runners if each.competes)
        return min(competing, key=lambda each: each.level, default=None)

    def hold_together(self, *, on_cpu: bool) -> None:
        """Let candidates take turns; those that might still be the fastest keep their workers."""
        try:
            if not on_cpu:  # on the CPU several starting at once would have more threads than cores
                self.held = [self.begin(candidate) for candidate in self.candidates]
                for runner in self.held:
                    runner.get_ready()
            for ladder in self.ladders:
                ladder.climb(self._attempt_and_hold, self)
            self._race()
        except BaseException:
            for runner in self.held:
                runner.worker.end()
            raise

    def hold_one_by_one(self) -> None:
        for ladder in self.ladders:
            ladder.climb(self._attempt_alone, self)

    def _attempt_and_hold(self, candidate: Candidate) -> None:
        if not candidate.competes:  # it failed to start
            return
        runner = next((each for each in self.held if each.candidate is candidate), None)
        if runner is None:
            runner = self.begin(candidate)
            self.held.append(runner)
            runner.get_ready()
        self._take_first_turns(runner)
        self._let_go()

    def _attempt_alone(self, candidate: Candidate) -> None:
        share = self.seconds / sum(min(MOST_HELD, len(ladder.rungs)) for ladder in self.ladders)
        runner = self.begin(candidate)
        try:
            runner.get_ready()
            self._take_first_turns(runner)
            ends = time.perf_counter() + share
            while candidate.competes and not self._is_hopeless(candidate):
                if candidate.is_known and time.perf_counter() >= ends:
                    return
                runner.take_turn()
        finally:
            runner.worker.end()

    def _take_first_turns(self, runner: _Runner) -> None:
        """Make the cold call, and enough warm calls to judge the candidate."""
        runner.take_first_call()
        while runner.candidate.competes and not runner.candidate.is_judged(self.patience):
            runner.take_turn()

    def _race(self) -> None:
        ends = time.perf_counter() + self.seconds
        while self.held:
            for runner in self.held:
                runner.take_turn()
            self._let_go()
            candidates = [runner.candidate for runner in self.held]
            if len(candidates) < 2:
                return
            taken = all(candidate.can_be_chosen for candidate in candidates)
            if taken and (time.perf_counter() >= ends or _decided(candidates)):
                return

    def _let_go(self) -> None:
        """End workers whose candidates have dropped out, are hopeless, or exceed MOST_HELD."""
        kept: list[_Runner] = []
        rungs_held: Counter[int] = Counter()
        for runner in sorted(self.held, key=lambda runner: runner.candidate.level):
            candidate = runner.candidate
            rungs_held[candidate.index] += 1
            too_many = rungs_held[candidate.index] > MOST_HELD
            if too_many or not candidate.competes or self._is_hopeless(candidate):
                runner.worker.end()
            else:
                kept.append(runner)
        self.held = kept

    def _is_hopeless(self, candidate: Candidate) -> bool:
        leader = self.leader
        return leader is not None and hopeless(candidate, leader, self.patience)


def start_prepared(
    problem: Problem, candidate: Candidate, input_sets: int, workers: ForkedWorkers, hear: Hear
) -> Worker:
    """Start a worker that prepares the candidate's calls."""
    return workers.start(
        steps.prepare, problem, candidate.index, candidate.threads, input_sets, hear=hear
    )


def _first_to_call(chosen: Candidate, competing: Sequence[Candidate]) -> Candidate:
    """Return the candidate whose cold call counts: the one that `chosen` wraps, or `chosen`."""
    for candidate in competing:
        same = (candidate.name, candidate.threads) == (chosen.plain, chosen.threads)
        if same and candidate.cold_seconds is not None:
            return candidate
    return chosen


def hopeless(candidate: Candidate, leader: Candidate, patience: float) -> bool:
    """Return whether a candidate can no longer become the fastest.

    A single call longer than `patience` is enough to judge it.
    """
    if candidate.is_known:
        return candidate.level > HOPELESS * leader.level
    judged = candidate.is_judged(patience)
    return judged and candidate.fastest > HOPELESS_AT_ONCE * leader.level


def _decided(candidates: Sequence[Candidate]) -> bool:
    """Return whether no candidate can be faster than the leader by more than CLOSE_ENOUGH."""
    leader = min(candidates, key=lambda candidate: candidate.median)
    best = median_interval(leader.seconds)
    others = [median_interval(each.seconds) for each in candidates if each is not leader]
    return best is not None and all(
        other is not None and other.low * (1 + CLOSE_ENOUGH) >= best.high for other in others
    )


def _fastest(competing: Sequence[Candidate]) -> Candidate | None:
    """Return the fastest correct candidate, on one thread unless more threads gain enough.

    A single candidate is returned unchecked; its output is checked when it is measured.
    """
    if len(competing) == 1 and competing[0].competes:
        return competing[0]
    correct = [each for each in competing if each.competes and each.correctness]
    timed = [each for each in correct if each.seconds]
    if not timed:
        return next(iter(correct), None)
    fastest = min(timed, key=lambda each: each.median)
    enough = fastest.median * (1 + THREADS_GAIN)
    as_fast = [each for each in timed if each.index == fastest.index and each.median <= enough]
    return next((each for each in as_fast if each.threads == 1), fastest)
