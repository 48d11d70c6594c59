"""Measures one row: candidates compete in a trial, then processes take turns timing warm calls."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from batchmark_job.machine.conditions import mean_conditions
from batchmark_job.measuring.candidate import CHANGES_INPUTS, Candidate, Entry
from batchmark_job.measuring.entry import enter
from batchmark_job.measuring.implementation_choice import (
    TRIAL_SHARE,
    choose_fastest,
    start_prepared,
)
from batchmark_job.measuring.limits import PATIENCE
from batchmark_job.measuring.measured_row import Bench, MeasuredRow
from batchmark_job.measuring.problem import Problem
from batchmark_job.measuring.processes.answers import LastLook, TurnSamples
from batchmark_job.measuring.processes.input_store import InputStore
from batchmark_job.measuring.processes.workers import StepError, Worker
from batchmark_job.measuring.samples.sample_statistics import spread_too_far
from batchmark_job.result.document import Measurement, MeasurementStatus, Trial
from batchmark_job.result.values import MOST_CHARACTERS
from batchmark_job.workloads.base import Workload

LONG_WAIT = 0.4  # share of their time; two threads on one core wait half of it
FAULTS = ("wrong", "failed", "too large", "refused")  # outcomes of candidates, worst first
# reasons of turns; the first one found counts for the row
CRITERIA = ("max_seconds", "max_samples", "precise")


@dataclass
class RowProcess:
    """A process that measures a row: its worker, and its measurements so far."""

    worker: Worker
    turns: list[TurnSamples] = field(default_factory=list)
    throttled: list[bool] = field(default_factory=list)  # by sample
    last_look: LastLook | None = None


@dataclass
class Row(MeasuredRow):
    """A row for a workload that runs alone; several processes take turns measuring it."""

    workload: Workload
    parameters: Mapping[str, int]
    processes: list[RowProcess] = field(default_factory=list)
    chosen: Candidate | None = None
    input_sets: int = 0
    _store: InputStore | None = None
    _worker: Worker | None = None  # won the trial, and measures first

    @property
    def turns(self) -> list[TurnSamples]:
        return [turn for process in self.processes for turn in process.turns]

    def take_turn(self, bench: Bench) -> None:
        """Let the next process take its turn; the first turn also chooses the implementation."""
        self.begun = True
        try:
            if self.chosen is None:
                self.choose(bench)
            if self.chosen is not None:
                self._take_turn(bench, self.chosen)
        except StepError as error:
            if self.chosen and not self.turns and self.chosen.correctness is None:
                self.found.update(trials=self._trials_with(str(error), "failed"))
            self.give_up_after(error)
        finally:
            if self.measurement is not None:
                self.close()

    def close(self) -> None:
        """End the workers and free the stored inputs; this is safe to call more than once."""
        for worker in (self._worker, *(process.worker for process in self.processes)):
            if worker is not None:
                worker.end()
        if self._store is not None:
            self._store.close()

    def choose(self, bench: Bench) -> None:
        """Hold a trial to choose the implementation; end the row if no candidate can compute it.

        Raises:
            StepError: the candidates could not be determined.
        """
        hear = self._listener(bench)
        store = InputStore()
        entry = bench.workers.run(
            enter,
            self.problem(bench),
            *(bench.thread_counts, bench.cache_bytes, store.path),
            hear=hear,
        )
        if entry.stored:
            self._store = store
        else:
            store.close()
        problem = self.problem(bench)
        self.found.update(flops=entry.flops, items=entry.items, bytes_moved=entry.bytes_moved)
        entry, chosen = self._hold_trial(bench, problem, entry)
        if chosen and chosen.correctness:
            bench.marks.mark("trial_ended")
        tried = [each for each in entry.candidates if each.was_tried]
        self.found.update(trials=tuple(each.trial_record() for each in tried))
        if chosen is None:
            self._give_up_without_choice(tried, bench.device)
            return
        sets, set_bytes = entry.input_sets, entry.input_bytes
        self.chosen, self.input_sets = chosen, sets
        self.limits = bench.limits if chosen.can_wait else replace(bench.limits, turns=1)
        self.found.update(
            implementation=chosen.implementation,
            cold_seconds=chosen.cold_seconds,
            correctness=chosen.correctness,
            input_sets=sets,
            caches_filled=sets * set_bytes / bench.cache_bytes if bench.cache_bytes else None,
        )

    def _hold_trial(
        self, bench: Bench, problem: Problem, entry: Entry
    ) -> tuple[Entry, Candidate | None]:
        """Run the trial, and return the entry with its results and the chosen candidate.

        If the winner is far slower than the previous size's winner suggests, run a second trial and
        keep the better of the two.
        """
        row = problem.workload.name, problem.dtype
        neighbours, hear = bench.neighbours, self._listener(bench)
        seconds = TRIAL_SHARE * bench.limits.max_seconds
        untried, start = deepcopy(entry), neighbours.start(*row, entry)
        chosen, self._worker = choose_fastest(problem, entry, seconds, bench.workers, hear, start)
        if chosen and neighbours.jumps(*row, entry, chosen):
            again, worker = choose_fastest(problem, untried, seconds, bench.workers, hear)
            if again and again.level < chosen.level:
                entry, chosen, worker, self._worker = untried, again, self._worker, worker
            if worker is not None:
                worker.end()
        if chosen:
            neighbours.add(*row, entry, chosen)
        return entry, chosen

    def _give_up_without_choice(self, entered: Sequence[Candidate], device: str) -> None:
        """End the row, as no candidate can compute it.

        The reason given is that of the candidates with the worst outcome, if there are any.
        """
        if not entered:
            reason = f"{self.workload.name} has no implementation for {device}"
            self.give_up(MeasurementStatus.SKIPPED, reason)
            return
        worst = min(map(_fault, entered), key=FAULTS.index)
        blamed = [candidate for candidate in entered if _fault(candidate) == worst]
        self.found.update(correctness=blamed[0].correctness)
        reasons = "; ".join(dict.fromkeys(str(candidate.reason) for candidate in blamed))
        if worst == "wrong":
            self.give_up(MeasurementStatus.FAILED, f"wrong result: {reasons}")
            return
        status = MeasurementStatus.FAILED if worst == "failed" else MeasurementStatus.SKIPPED
        self.give_up(status, reasons)

    def _take_turn(self, bench: Bench, chosen: Candidate) -> None:
        began = time.perf_counter()
        alone = chosen.correctness is None and not self.turns
        process = self._next_process(bench, chosen)
        turn: TurnSamples = process.worker.ask(
            "measure",
            limits=self.limits.of_one_turn(),
            trial_seconds=chosen.trial_seconds,
            calls_per_sample=self.turns[0].calls_per_sample if self.turns else None,
            check_first=alone,
        )
        self.unfinished = ()
        if alone and not self._check_first(turn):
            return
        process.turns.append(turn)
        if turn.evicted_bytes and bench.cache_bytes:
            self.found.update(caches_filled=turn.evicted_bytes / bench.cache_bytes)
        spans = list(zip(turn.starts, [*turn.starts[1:], turn.end], strict=True))
        process.throttled += self.conditions_of(bench.monitor, spans, turn.wait_share)
        if len(process.turns) == self.limits.turns:
            self._look_back(bench, process)
        self.spent_seconds += time.perf_counter() - began
        if self.measurement is None and self._is_over():
            for each in self.processes:
                if each.last_look is None and self.measurement is None:
                    self._look_back(bench, each)
            if self.measurement is None:
                self._finish()

    def _next_process(self, bench: Bench, chosen: Candidate) -> RowProcess:
        """Return the next process, starting it if necessary; the trial's winner goes first."""
        index = len(self.turns) % self.limits.processes
        if index == len(self.processes):
            worker, self._worker = self._worker, None
            if worker is not None:
                self.processes.append(RowProcess(worker))
            else:
                problem, hear = self.problem(bench), self._listener(bench)
                worker = start_prepared(problem, chosen, self.input_sets, bench.workers, hear)
                self.processes.append(RowProcess(worker))
                worker.get_ready()
        return self.processes[index]

    def _check_first(self, turn: TurnSamples) -> bool:
        """Record the only candidate's cold call; if it is wrong, end the row and return False."""
        first = turn.cold
        assert first is not None  # noqa: S101
        self.found.update(cold_seconds=first.seconds, correctness=first.correctness)
        if not first.wrong:
            return True
        outcome = "failed" if first.changes_inputs else "wrong"
        self.found.update(trials=self._trials_with(first.wrong, outcome))
        said = first.wrong if first.changes_inputs else f"wrong result: {first.wrong}"
        self.give_up(MeasurementStatus.FAILED, said)
        return False

    def _trials_with(self, reason: str, outcome: str) -> tuple[Trial, ...]:
        """Return the trials with the chosen candidate's outcome replaced by this failure."""
        trials: tuple[Trial, ...] = self.found["trials"]
        changes = {
            "outcome": outcome,
            "reason": reason[:MOST_CHARACTERS],
            "correctness": self.found["correctness"],
        }
        return tuple(
            trial.model_copy(update=changes) if trial.outcome == "chosen" else trial
            for trial in trials
        )

    def _look_back(self, bench: Bench, process: RowProcess) -> None:
        """End a process after its last turn, and fail the row if the final checks fail."""
        phases = bench.device == "cuda" and process is self.processes[0]
        last: LastLook = process.worker.ask("look_back", phases=phases)
        process.worker.end()
        process.last_look = last
        self._keep_the_worst(last.correctness)
        if last.changed_inputs:
            self.give_up(MeasurementStatus.FAILED, CHANGES_INPUTS)
        elif last.wrong:
            reason = f"wrong result from the last call: {last.wrong}"
            self.give_up(MeasurementStatus.FAILED, reason)

    def _finish(self) -> None:
        status, reason = MeasurementStatus.MEASURED, None
        turns, limits = self.turns, self.limits
        drifting = [turn.unsettled for turn in turns if turn.unsettled]
        count = len(self.samples)
        if 2 * len(drifting) > len(turns):
            status, reason = MeasurementStatus.UNSETTLED, drifting[0]
        elif apart := spread_too_far(self.samples):
            status, reason = MeasurementStatus.UNSETTLED, apart
        elif count < limits.minimum_samples:
            reason = (
                f"only {count} samples, because {limits.minimum_samples} would have taken more "
                f"than {PATIENCE * limits.max_seconds:g} s"
            )
            # Threads that share a core make calls slow, and so the samples few.
            if (waited := self._waited()) >= LONG_WAIT:
                status = MeasurementStatus.UNSETTLED
                reason += f", and its threads spent {waited:.0%} of the time waiting for a CPU"
        last = self.processes[0].last_look
        reason = "; ".join(filter(None, (reason, last and last.remark))) or None
        self.end(status, reason)

    def _waited(self) -> float:
        """Return the share of time spent waiting for a CPU, or 0 if unknown or single-threaded."""
        several = self.chosen is not None and (self.chosen.threads or 1) > 1
        return (mean_conditions(self._during).cpu_wait_share or 0.0) if several else 0.0

    def _as_measured(self, status: MeasurementStatus, reason: str | None) -> Measurement:
        found = dict(self.found)
        if self.turns:
            found.update(self._measured())
        elif self.unfinished:
            found.update(samples_seconds=tuple(self.unfinished))
        return self._named(status, reason, **found)

    def _measured(self) -> dict[str, Any]:
        """Return the Measurement fields that combine the results of all processes."""
        turns = self.turns
        processes = [process for process in self.processes if process.turns]
        looks = [process.last_look for process in processes if process.last_look]
        peaks = [look.peak_memory_bytes for look in looks if look.peak_memory_bytes is not None]
        joules = [turn.joules for turn in turns if turn.joules is not None]
        return {
            **self._sampled(
                [sum(len(turn.seconds) for turn in process.turns) for process in processes],
                [slow for process in processes for slow in process.throttled],
                min((turn.stopping.criterion for turn in turns), key=CRITERIA.index),
                turns[0].resolution_seconds,
                **(looks[0].phases if looks else {}),
            ),
            "timer": turns[0].timer,
            "calls_per_sample": turns[0].calls_per_sample,
            "warmup_calls": sum(turn.warmup_calls for turn in turns),
            "unrecorded_calls": sum(turn.unrecorded_calls for turn in turns),
            "peak_memory_bytes": max(peaks, default=None),
            "energy_joules": statistics.fmean(joules) if joules else None,
        }

    def problem(self, bench: Bench) -> Problem:
        stored = self._store.path if self._store else None
        seconds = bench.limits.max_seconds
        return Problem(self.workload, self.parameters, self.dtype, bench.device, stored, seconds)


def _fault(candidate: Candidate) -> str:
    return "too large" if candidate.out_of_memory else candidate.outcome
