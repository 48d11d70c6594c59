"""Writes task output for people to read, using the logger.

Printed output takes a different path to a task's log, so it can end up inside one of Airflow's
collapsed groups, where nobody sees it.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, NoReturn, cast

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException
from rich.console import Console

from batchmark.core import output
from batchmark.core.errors import BatchmarkError
from batchmark.orchestration.xcom import FAILURE_XCOM

log = logging.getLogger("batchmark.task")


def tell(*texts: object) -> None:
    """Log the texts, with one log record per line."""
    for text in texts:
        for line in str(text).split("\n"):
            log.info("%s", output.line(line))


def fail(context: Context, reason: str, cause: Exception | None = None) -> NoReturn:
    """Fail the task without retries, and also show the reason on the run's page.

    Raises:
        AirflowFailException: always.
    """
    context["ti"].xcom_push(key=FAILURE_XCOM, value=reason)
    raise AirflowFailException(reason) from cause


@contextmanager
def fail_if_refused(context: Context) -> Iterator[None]:
    """Call `fail` if the `with` block raises a BatchmarkError, since a retry would fail again."""
    try:
        yield
    except BatchmarkError as error:
        fail(context, str(error), error)


def console(width: int = 160) -> Console:
    """Return a console whose lines are written to the log."""
    return Console(file=cast("IO[str]", _Lines()), width=width)


class _Lines(io.TextIOBase):
    """A text stream that logs complete lines."""

    def __init__(self) -> None:
        self._rest = ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            tell(line)
        return len(text)
