"""What ends a job before it measures, with its exit code; how an error or a warning is said."""

from __future__ import annotations


def first_line(error: BaseException) -> str:
    """Of an exception's message: CUDA's go on with advice."""
    return (str(error).strip().splitlines() or ["no message"])[0]


def one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {first_line(error)}"


def warn(text: str) -> None:
    """One line for whoever follows the log."""
    print(f"batchmark_job: warning: {text}", flush=True)


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
