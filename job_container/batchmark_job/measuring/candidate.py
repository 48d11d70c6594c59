"""A row's candidates: pairs of an implementation and a thread count."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from batchmark_job.result.document import Correctness, Implementation, Outcome, Trial
from batchmark_job.result.values import MOST_CHARACTERS

FEWEST_CALLS = 3  # fewer prove little: one may have waited for the scheduler (is_judged)
MOST_HELD = 3  # thread counts per implementation held at a time
FEWEST_TURNS = 3  # turns of short calls, as the machine is slower in some turns than in others
# Before choosing among candidates that are close. With an H200 host's noise, 97 % of the thread
# counts chosen were right after 3 turns, and 99 % after 5 (test_thread_race.py).
TURNS_TO_CHOOSE = {"cuda": 3, "cpu": 5}
LONG_SECONDS = 0.05  # calls this long are hardly affected by what ran before them

CHANGES_INPUTS = (
    "its calls change their inputs, so each call would be timed on different data; copy the "
    "inputs, or set REPEATABLE = False"
)


@dataclass
class Candidate:
    """An implementation with a thread count in a row's trial; dropped if it has a `reason`.

    `index` is its position among the workload's implementations for the device. `plain` names the
    implementation that makes the cold call: the wrapped one, if this one wraps another.
    """

    index: int
    implementation: Implementation
    plain: str
    outcome: Outcome = "slower"
    reason: str | None = None
    out_of_memory: bool = False
    correctness: Correctness | None = None
    cold_seconds: float | None = None
    warm_seconds: Sequence[float] = ()  # calls between the cold one and the first turn
    seconds: list[float] = field(default_factory=list)
    turns: int = 0
    can_wait: bool = False  # whether memory holds its processes during other rows' turns

    @property
    def name(self) -> str:
        return self.implementation.name

    @property
    def threads(self) -> int | None:
        """Number of CPU threads; None on CUDA."""
        return self.implementation.threads

    @property
    def competes(self) -> bool:
        return self.reason is None

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def calls(self) -> int:
        """Number of warm calls."""
        return len(self.warm_seconds) + len(self.seconds)

    @property
    def fastest(self) -> float:
        """Duration of the fastest warm call."""
        return min([*self.seconds, *self.warm_seconds], default=math.inf)

    @property
    def level(self) -> float:
        """Typical call duration: the median in the trial or, before that, the fastest warm call."""
        return self.median if self.seconds else self.fastest

    def is_judged(self, patience: float) -> bool:
        """Return whether enough calls, or one very long one, were made to judge the candidate.

        A call is very long if it takes over `patience`. A shorter one proves little: waiting for
        the scheduler made a 2 ms call last 53 ms (docs/measurement.md).
        """
        return self.calls >= FEWEST_CALLS or (self.calls > 0 and self.fastest > patience)

    @property
    def is_known(self) -> bool:
        """Whether the candidate was called often enough to be dropped for good."""
        return self._has_taken(FEWEST_TURNS)

    @property
    def can_be_chosen(self) -> bool:
        """Whether the candidate was called often enough to be chosen over slightly slower ones."""
        return self._has_taken(TURNS_TO_CHOOSE["cuda" if self.threads is None else "cpu"])

    def _has_taken(self, turns: int) -> bool:
        if len(self.seconds) < FEWEST_CALLS:
            return False
        return self.turns >= turns or min(self.seconds) >= LONG_SECONDS

    @property
    def was_tried(self) -> bool:
        """Whether the candidate was called, dropped or chosen; not all thread counts are tried."""
        return self.outcome != "slower" or self.cold_seconds is not None

    @property
    def trial_seconds(self) -> float | None:
        """Median duration of the candidate's calls in the trial, or None if none was warm.

        If it was dropped before its first turn, this is the duration of its fastest warm call.
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
    """Group candidates by implementation."""
    found: dict[int, list[Candidate]] = {}
    for candidate in candidates:
        found.setdefault(candidate.index, []).append(candidate)
    return list(found.values())


class Entry(NamedTuple):
    """A row's candidates and facts about the row; `input_sets` is 0 if no candidate competes."""

    candidates: Sequence[Candidate]
    input_sets: int
    input_bytes: int
    fit_together: bool  # memory holds all competing candidates, each with its inputs
    stored: bool  # whether the inputs are stored for later workers
    flops: int | None
    items: int | None
    bytes_moved: int | None
