"""A row's candidates: implementations with numbers of threads, while one is chosen."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from batchmark_job.result.document import Correctness, Implementation, Outcome, Trial
from batchmark_job.result.values import MOST_CHARACTERS

FEWEST_CALLS = 3
MOST_HELD = 3  # of an implementation's numbers of threads, at a time
FEWEST_TURNS = 3  # of short calls: the machine is slower in some than in others
# Before one of several is chosen that are hardly apart. With the noise of an H200's host 97 % of
# choices on threads were right after 3 turns, and 99 % after 5 (test_thread_race.py).
TURNS_TO_CHOOSE = {"cuda": 3, "cpu": 5}
LONG_SECONDS = 0.05  # calls so long hardly notice what happened before them

CHANGES_INPUTS = (
    "its calls change their inputs, so that each would be timed on other data; copy them, or set "
    "REPEATABLE = False"
)


@dataclass
class Candidate:
    """An implementation in the trial, and what became of it. A reason means that it is out.

    `index` is its place among the workload's implementations for the device; `plain` names the one
    that makes the cold call where it wraps another.
    """

    index: int
    implementation: Implementation
    plain: str
    outcome: Outcome = "slower"
    reason: str | None = None
    out_of_memory: bool = False
    correctness: Correctness | None = None
    cold_seconds: float | None = None
    warm_seconds: Sequence[float] = ()  # of the calls between the cold one and the first turn
    seconds: list[float] = field(default_factory=list)
    turns: int = 0
    can_wait: bool = False  # whether memory holds its processes while other rows take their turns

    @property
    def name(self) -> str:
        return self.implementation.name

    @property
    def threads(self) -> int | None:
        """None on CUDA."""
        return self.implementation.threads

    @property
    def competes(self) -> bool:
        return self.reason is None

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def calls(self) -> int:
        """Its warm ones."""
        return len(self.warm_seconds) + len(self.seconds)

    @property
    def fastest(self) -> float:
        """Of its warm calls."""
        return min([*self.seconds, *self.warm_seconds], default=math.inf)

    @property
    def level(self) -> float:
        """What its calls take: their median in the trial, before that the fastest warm one."""
        return self.median if self.seconds else self.fastest

    def is_judged(self, patience: float) -> bool:
        """Whether its fastest call tells how slow it is; a single one does that took so long.

        A thread that waits for the scheduler made a call of 2 ms last 53 ms (docs/measurement.md).
        """
        return self.calls >= FEWEST_CALLS or (self.calls > 0 and self.fastest > patience)

    @property
    def is_known(self) -> bool:
        """Whether it was called often enough to be given up for good."""
        return self._has_taken(FEWEST_TURNS)

    @property
    def can_be_chosen(self) -> bool:
        """Whether it was called often enough to be preferred to others that are hardly slower."""
        return self._has_taken(TURNS_TO_CHOOSE["cuda" if self.threads is None else "cpu"])

    def _has_taken(self, turns: int) -> bool:
        if len(self.seconds) < FEWEST_CALLS:
            return False
        return self.turns >= turns or min(self.seconds) >= LONG_SECONDS

    @property
    def was_tried(self) -> bool:
        """Whether anything is known of it: not all numbers of threads are tried."""
        return self.outcome != "slower" or self.cold_seconds is not None

    @property
    def trial_seconds(self) -> float | None:
        """Median of its calls in the trial; None where it was the only candidate.

        One that was hopeless before its first turn has its fastest warm call.
        """
        return self.level if math.isfinite(self.level) else None

    def trial_record(self) -> Trial:
        return Trial(
            implementation=self.implementation,
            outcome=self.outcome,
            reason=self.reason and self.reason[:MOST_CHARACTERS],
            median_seconds=self.trial_seconds,
            calls=len(self.seconds) or len(self.warm_seconds),
            correctness=self.correctness,
        )

    def drop(self, outcome: Outcome, reason: str, *, out_of_memory: bool = False) -> None:
        self.outcome, self.reason, self.out_of_memory = outcome, reason, out_of_memory


def by_implementation(candidates: Iterable[Candidate]) -> list[list[Candidate]]:
    """Those of each implementation, with its numbers of threads."""
    found: dict[int, list[Candidate]] = {}
    for candidate in candidates:
        found.setdefault(candidate.index, []).append(candidate)
    return list(found.values())


class Entry(NamedTuple):
    """The candidates of a row. `input_sets` is 0 where none of them competes."""

    candidates: Sequence[Candidate]
    input_sets: int
    input_bytes: int
    fit_together: bool  # memory holds all that compete, each with its inputs
    stored: bool  # whether the inputs are kept for the workers to come
    flops: int | None
    items: int | None
    bytes_moved: int | None
