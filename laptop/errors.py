"""Errors that end a command with a message for the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from batchmark.report.model import Report


class LaptopError(Exception):
    """Raised when a command can't continue; its message tells the user why."""


class TerraformError(LaptopError):
    """Raised when Terraform is missing, is too old, or fails."""


class FailedRunError(LaptopError):
    """Raised when some of a run's jobs failed; `report` is the run's report."""

    def __init__(self, message: str, report: Report) -> None:
        super().__init__(message)
        self.report = report
