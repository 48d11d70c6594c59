"""What a fault and a run are, what should come of them, and what came, in the same words."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tests.faults.bench import Bench

DAG = "faults"
DAG_TIME_OUT = "faults_time_out"
DAG_SLOWER = "faults_slower"
DAG_SEND = "send_alerts"
# The product's own.
DAG_LAYERED = "distributed_training_benchmark"
DAG_GUARD = "leak_guard"
DAG_COMPARISON = "job_comparison"
OWN_DAGS = (DAG_LAYERED, DAG_GUARD, DAG_COMPARISON)
DAGS = (DAG, DAG_TIME_OUT, DAG_SLOWER, DAG_SEND, *OWN_DAGS)
TASK = "run_benchmark"
COLLECT = "collect_results"
STAND_UP, COLLAPSE = "stand_up_file_system", "collapse_file_system"


@dataclass
class Run:
    """One DAG run with one planned job, or two; its gate holds the job until it is opened."""

    run_id: str
    dag_id: str
    target: str
    gate: Path
    linger: Path
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None
    marked: frozenset[str] = frozenset()  # tasks that a user ended
    guarded: bool = False  # the leak guard ended what it left

    def open(self) -> None:
        self.gate.touch()


# Parts of the reasons that a run gives for a lost job; what comes first decides between two.
OR = " or "
NO_JOB = "no job was submitted"
# What became of a layer, and by what.
NEVER_THERE = "never there"
COLLAPSED = "gone by collapse_file_system"
REMOVED = "gone by stand_up_file_system"
GUARDED = "gone by leak_guard"
STOPPED = OR.join(("can't be read (NoSuchKey)", "its termination was requested"))


class Outcome(NamedTuple):
    """How a run's only planned job came out, or both of a comparison's.

    `says` is a part of what its failed task says; `jobs` is how many Batch jobs it took; `kept`
    is whether the collected run holds its document, and `lost` a part of the reason that it gives
    for a lost one, or several joined by OR. `others` names the run's other tasks that failed by
    themselves, and `alerts` is how many messages about the run arrived. `layer` is what became of
    the file system that a run stands up for itself.
    """

    state: str = "success"
    jobs: int = 1
    kept: bool = True
    says: str = ""
    lost: str = ""
    others: str = ""
    alerts: int = 0
    layer: str = ""

    def lost_for(self, reason: str) -> bool:
        """Whether the run gives one of the reasons expected."""
        return bool(self.lost) and any(part in reason for part in self.lost.split(OR))

    def __str__(self) -> str:
        jobs = f"{self.jobs} job{'' if self.jobs == 1 else 's'}"
        kept = "kept" if self.kept else "nothing kept"
        lost = f", lost: “{self.lost}”" if self.lost else ""
        others = f", but {self.others}" if self.others else ""
        said = f": “{self.says}”" if self.says else ""
        alerts = f", {self.alerts} alert{'' if self.alerts == 1 else 's'}" if self.alerts else ""
        layer = f", layer {self.layer}" if self.layer else ""
        return f"{self.state}, {jobs}, {kept}{alerts}{layer}{lost}{others}{said}"


def lost_for(reason: str, **changes: Any) -> Outcome:
    """Of a job that failed and left nothing: both its task and its run say why."""
    outcome = Outcome("failed", kept=False, says=reason, lost=reason)
    return outcome._replace(**changes)


class Invariants(NamedTuple):
    """What must be none after every fault."""

    leaked: int  # jobs still live though their run has ended
    # Documents reported as kept that are not in bucket and history as they were collected.
    lost: int
    duplicates: int  # results, or rows of the history, beyond one job's for each planned

    def __str__(self) -> str:
        return f"{self.leaked}/{self.lost}/{self.duplicates}"


NONE_BROKEN = Invariants(0, 0, 0)


class Result(NamedTuple):
    """One line of the table."""

    seen: Outcome
    invariants: Invariants | None  # none were counted of a fault that could not be inflicted
    seconds: float
    log: str = ""


# By the point of the job's way at which the fault strikes; where there is but one, the run alone.
Runs = dict[str, Run]


@dataclass(frozen=True)
class Fault:
    """A fault with the outcome it must have at each point; its name is "" where there is but one.

    `inflict` returns the runs it struck, by point, when they have ended. One that is `alone`
    disturbs the whole stack, so that no other is inflicted meanwhile. The layered ones come one
    after the other, as they share the only layer. The quick ones are part of `make test-rest`.
    """

    name: str
    inflict: Callable[[Bench], Run | Runs]
    expected: Mapping[str, Outcome]
    alone: bool = False
    layered: bool = False
    quick: bool = False
