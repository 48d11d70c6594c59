"""Errors that end a command with a message for its user."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from batchmark.report.model import Report


class LaptopError(Exception):
    """A command can't continue; the message says why, and what to do."""


class TerraformError(LaptopError):
    """Terraform is missing, too old, or ended with an error."""


class FailedRunError(LaptopError):
    """Jobs of a run failed; `report` is the report of that run."""

    def __init__(self, message: str, report: Report) -> None:
        super().__init__(message)
        self.report = report
