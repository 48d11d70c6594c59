"""Lets a row's trial start with the thread counts that were best for the previous size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from batchmark_job.measuring.candidate import Candidate, Entry

# Doubling the work may more than double the time as it outgrows a cache, but hardly by this much.
JUMP = 2.0


class Start(NamedTuple):
    """Where to start a trial: at the thread counts that were best at another size.

    `then` is the only direction worth trying from there: more work never needs fewer threads.
    """

    threads: Mapping[str, int]
    then: Literal["more", "fewer"]


class _Size(NamedTuple):
    work: float
    seconds: float  # of the chosen implementation
    threads: Mapping[str, int]  # the best thread count of each implementation


@dataclass
class Neighbours:
    """Remembers, for each workload and dtype, the last size for which a choice was made."""

    _latest: dict[tuple[str, str], _Size] = field(default_factory=dict)

    def start(self, workload: str, dtype: str, entry: Entry) -> Start | None:
        """Return where to start the trial, or None for the first size."""
        latest = self._latest.get((workload, dtype))
        if latest is None:
            return None
        return Start(latest.threads, "more" if _work(entry) >= latest.work else "fewer")

    def jumps(self, workload: str, dtype: str, entry: Entry, chosen: Candidate) -> bool:
        """Return whether the chosen candidate takes over JUMP times as long as its work implies."""
        latest, seconds = self._latest.get((workload, dtype)), chosen.trial_seconds
        if latest is None or seconds is None:
            return False
        return seconds > JUMP * latest.seconds * max(1.0, _work(entry) / latest.work)

    def add(self, workload: str, dtype: str, entry: Entry, chosen: Candidate) -> None:
        seconds, work = chosen.trial_seconds, _work(entry)
        if seconds is not None and work:
            found = _Size(work, seconds, _best_threads(entry.candidates))
            self._latest[workload, dtype] = found


def _work(entry: Entry) -> float:
    return float(entry.flops or entry.bytes_moved or entry.input_bytes)


def _best_threads(candidates: Iterable[Candidate]) -> dict[str, int]:
    slowest_first = sorted(candidates, key=lambda candidate: -candidate.level)
    return {each.name: each.threads for each in slowest_first if each.calls and each.threads}
