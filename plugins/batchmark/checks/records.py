"""Results of the environment check, one per question and target."""

from __future__ import annotations

from collections import Counter
from typing import Literal, Self

from pydantic import AwareDatetime, Field

from batchmark.core.output import in_lines
from batchmark.core.record import Record

Status = Literal["fail", "warn", "not checked", "ok"]
STATUSES: tuple[Status, ...] = ("fail", "warn", "not checked", "ok")  # the worst first


class Check(Record):
    """The answer to one question, with what AWS returned and a remedy if something is wrong."""

    name: str
    target: str = Field(description="one or more targets, or 'all'")
    status: Status = Field(
        description="'not checked' if there was no answer, which never counts as ok"
    )
    seen: str
    remedy: str = ""

    def judged(self, status: Status, seen: str, remedy: str = "") -> Self:
        return self.model_copy(update={"status": status, "seen": seen, "remedy": remedy})


class EnvironmentCheck(Record):
    """The results of one environment check."""

    installation: str
    region: str
    checked_at: AwareDatetime
    checks: tuple[Check, ...]

    def of(self, status: Status) -> list[Check]:
        return [check for check in self.checks if check.status == status]

    @property
    def summary(self) -> str:
        """Return the number of checks for each status, starting with the worst."""
        counts = Counter(check.status for check in self.checks)
        return ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts[status])

    def failures(self) -> str:
        """Return failed checks and their remedies, one per line; empty if none failed."""
        return in_lines(
            f"{check.name} of {check.target}: {check.seen}"
            + (f" Remedy: {check.remedy}" if check.remedy else "")
            for check in self.of("fail")
        )
