"""Records of how failed jobs ended: a description and their last log lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Self

from pydantic import Field

from batchmark.core.record import Record
from batchmark_job.result.values import Shown

MOST_LINES = 20  # judgment: holds a traceback's end; pages show them per kind of failure
LINE_CHARACTERS = 300  # judgment: bounds what one job can put into reports and messages
_COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")  # and other commands to a terminal


class Ending(Record):
    """A record of how a failed job ended."""

    how: Shown = Field(
        description="description of how it ended, such as its exit code and what that means"
    )
    last_lines: tuple[Shown, ...] = Field(
        default=(), description="last lines of its log, each truncated if too long"
    )

    @classmethod
    def of(cls, how: str, lines: Sequence[str]) -> Self:
        plain = (_COLOURS.sub("", line).expandtabs() for line in lines[-MOST_LINES:])
        return cls(how=how, last_lines=tuple(line[:LINE_CHARACTERS] for line in plain))

    @property
    def kind(self) -> tuple[str, str]:
        """The key that groups jobs with the same failure.

        It includes only the last log line, because other lines contain paths and times.
        """
        return self.how, self.last_lines[-1] if self.last_lines else ""


class FailedJob(Record):
    """A failed job in a run, with or without a result."""

    target: Shown
    measures: Shown
    repeat: int
    job_id: Shown | None
    log_url: str | None = Field(
        default=None, description="link to its log; null if the job left no result"
    )
    ending: Ending
