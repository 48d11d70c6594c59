"""Errors that end a job, with their exit codes, and functions that print or shorten messages."""

from __future__ import annotations

import os
import sys


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message; CUDA's messages go on to give advice."""
    return (str(error).strip().splitlines() or ["no message"])[0]


def one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {first_line(error)}"


def say(text: str) -> None:
    """Print one line to the log; a closed log does not stop the job."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        drop_output()


def drop_output() -> None:
    """Discard all further output once its reader is gone; otherwise Python complains on exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def warn(text: str) -> None:
    say(f"batchmark-job: warning: {text}")


class JobError(Exception):
    """Base class of errors that end a job with their `exit_code` and a one-line message."""

    exit_code = 1


class InputError(JobError):
    """The input is invalid, so nothing was measured or written."""

    exit_code = 2


class CannotMeasureError(JobError):
    """The device, or a node, replica or service that the job needs, is missing or unusable."""

    exit_code = 3


class OutputError(JobError):
    """The document or image set could not be written, or an image set's file could not be read."""

    exit_code = 4
