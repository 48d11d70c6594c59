"""What the leak guard found: everything that may bill, and whether a run needs it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, get_args

from pydantic import AwareDatetime, Field

from batchmark.record import Record

Kind = Literal["job", "instance", "file system"]
Verdict = Literal["leaked", "by hand", "new", "ending", "in use"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)  # the worst first
# What the guard can be allowed to end.
Endable = Literal["jobs", "jobs_of_unknown_runs", "instances", "file_systems"]
ENDABLE: tuple[Endable, ...] = get_args(Endable)


class Limits(Record):
    """From when on something may be called a leak."""

    grace_minutes: float = Field(default=15, ge=0, description="A younger job is left alone.")
    idle_minutes: float = Field(
        default=30,
        ge=0,
        description="An instance has leaked when no job of its target ran for so long.",
    )
    file_system_hours: float = Field(
        default=24, ge=0, description="A younger file system is left alone."
    )


class RunName(Record):
    """An Airflow run, as its job or file system tells it; the DAG where that is told too."""

    dag_id: str | None
    run_id: str


class Resource(Record):
    """One job, instance or file system, and why it may or may not be there."""

    kind: Kind
    id: str
    what: str = Field(description="its name, or what it is")
    target: str | None = None
    since: AwareDatetime = Field(description="submitted, launched or created")
    run: RunName | None = None
    verdict: Verdict
    reason: str
    endable: Endable | None = Field(
        default=None, description="what the guard must be allowed to end; null if nothing leaked"
    )
    ended: bool = Field(default=False, description="it was told to end, or has ended by itself")
    action: str = Field(default="", description="what the guard did, or what is left to do")


class GuardReport(Record):
    """What one look found."""

    installation: str
    region: str
    looked_at: AwareDatetime
    resources: tuple[Resource, ...]
    unread: tuple[str, ...] = Field(default=(), description="what could not be looked at, and why")

    def of(self, verdict: Verdict) -> list[Resource]:
        return [one for one in self.resources if one.verdict == verdict]

    @property
    def summary(self) -> str:
        """How much was found, and how much of it leaked."""
        counts = [f"{len(self.of(verdict))} {verdict}" for verdict in VERDICTS if self.of(verdict)]
        return ", ".join(counts) or "nothing runs"

    def alarm(self) -> str:
        """Each leak in a line, with what was done about it; empty without any."""
        return "\n".join(
            f"{one.kind} {one.id} ({one.what}), since {one.since:%Y-%m-%d %H:%M %Z}: "
            f"{one.reason} {one.action}"
            for one in self.of("leaked")
        )


def allowed(resource: Resource, may_end: Collection[str]) -> bool:
    return resource.endable is not None and resource.endable in may_end
