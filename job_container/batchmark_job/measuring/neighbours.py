"""What the choice for one size tells about the next size of the same workload."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from batchmark_job.measuring.candidate import Candidate, Entry

# The time of twice the work may grow more than twice, where it outgrows a cache; hardly this often.
JUMP = 2.0


class Start(NamedTuple):
    """Where to begin with numbers of threads: the best of another size, by implementation.

    As more work wants no fewer threads, only `more` or `fewer` of them have to be tried then.
    """

    threads: Mapping[str, int]
    then: Literal["more", "fewer"]


class _Size(NamedTuple):
    work: float
    seconds: float  # of the implementation chosen
    threads: Mapping[str, int]  # the best number of each implementation


@dataclass
class Neighbours:
    """The size of each workload and dtype that was chosen for last."""

    _latest: dict[tuple[str, str], _Size] = field(default_factory=dict)

    def start(self, workload: str, dtype: str, entry: Entry) -> Start | None:
        """None before the first size."""
        latest = self._latest.get((workload, dtype))
        if latest is None:
            return None
        return Start(latest.threads, "more" if _work(entry) >= latest.work else "fewer")

    def jumps(self, workload: str, dtype: str, entry: Entry, chosen: Candidate) -> bool:
        """Whether the size chosen for takes longer than its work explains."""
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
