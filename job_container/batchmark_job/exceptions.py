"""What ends a job before it measures; each carries its exit code."""

from __future__ import annotations


class JobError(Exception):
    """Base of this package's errors; the message is one line with the value seen and the fix."""

    exit_code = 1


class InputError(JobError):
    """Bad input: nothing was measured or written."""

    exit_code = 2


class CannotMeasureError(JobError):
    """The device asked for is not there."""

    exit_code = 3


class OutputError(JobError):
    """Measured, but the document is not where it was wanted."""

    exit_code = 4
