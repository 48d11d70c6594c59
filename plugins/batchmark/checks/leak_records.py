"""The leak guard's report: each resource that might be billed, and whether a run needs it."""

from __future__ import annotations

from typing import Literal, Self, get_args

from pydantic import AwareDatetime, Field

from batchmark.core.output import in_lines
from batchmark.core.record import Record

LeakKind = Literal["job", "instance", "file system", "parameter", "cluster", "node"]
LeakVerdict = Literal["leaked", "by hand", "new", "ending", "in use"]
VERDICTS: tuple[LeakVerdict, ...] = get_args(LeakVerdict)  # the worst first
# What the guard can be allowed to end.
Endable = Literal[
    "jobs", "jobs_of_unknown_runs", "instances", "run_file_systems", "file_systems", "nodes"
]
ENDABLE: tuple[Endable, ...] = get_args(Endable)


class LeakAges(Record):
    """The ages above which resources count as leaked."""

    grace_minutes: float = Field(
        default=15, ge=0, description="Jobs, nodes and run file systems younger than this are kept."
    )
    idle_minutes: float = Field(
        default=30,
        ge=0,
        description="An instance has leaked if none of its target's jobs has run for this long.",
    )
    file_system_hours: float = Field(
        default=24,
        ge=0,
        description="File systems younger than this are kept even if their run is unknown.",
    )
    run_file_system_hours: float = Field(
        default=72,
        ge=0,
        description="A run's file system older than this has leaked even if its run is live.",
    )
    node_hours: float = Field(
        default=6,
        ge=0,
        description="An EKS node older than this has leaked even if its run is live.",
    )


class RunName(Record):
    """The Airflow run named by a resource; the DAG is None if only the run is named."""

    dag_id: str | None
    run_id: str


class Resource(Record):
    """A resource that might be billed, with the guard's verdict and the reason for it."""

    kind: LeakKind
    id: str
    what: str = Field(description="its name or a short description")
    target: str | None = None
    since: AwareDatetime = Field(description="when it was submitted, launched or created")
    run: RunName | None = None
    verdict: LeakVerdict
    reason: str
    endable: Endable | None = Field(
        default=None, description="permission required to end it; null unless it has leaked"
    )
    ended: bool = Field(
        default=False, description="whether its end was requested or it ended by itself"
    )
    action: str = Field(default="", description="what the guard did, or why it did nothing")

    def judged(self, verdict: LeakVerdict, reason: str, endable: Endable | None = None) -> Self:
        return self.model_copy(update={"verdict": verdict, "reason": reason, "endable": endable})


class GuardReport(Record):
    """Everything that one check of the leak guard found."""

    installation: str
    region: str
    looked_at: AwareDatetime
    resources: tuple[Resource, ...]
    unread: tuple[str, ...] = Field(default=(), description="what could not be checked, and why")

    def of(self, verdict: LeakVerdict) -> list[Resource]:
        return [resource for resource in self.resources if resource.verdict == verdict]

    @property
    def summary(self) -> str:
        """Return the number of resources for each verdict, starting with the worst."""
        counts = [f"{len(self.of(verdict))} {verdict}" for verdict in VERDICTS if self.of(verdict)]
        return ", ".join(counts) or "nothing runs"

    def alarm(self) -> str:
        """Return one line per leak with the action taken, or an empty string if there are none."""
        return in_lines(
            f"{one.kind} {one.id} ({one.what}), since {one.since:%Y-%m-%d %H:%M %Z}: "
            f"{one.reason} {one.action}"
            for one in self.of("leaked")
        )
