"""What tasks tell people, through the log.

What is printed takes another way to a task's log: it may arrive after the line that begins one of
Airflow's collapsed groups, and then nobody sees it.
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
    """Log each line of the texts."""
    for text in texts:
        for line in str(text).split("\n"):
            log.info("%s", output.line(line))


def fail(context: Context, reason: str, cause: Exception | None = None) -> NoReturn:
    """End the task without another try, with a reason that the run's page has, too.

    Raises:
        AirflowFailException: always.
    """
    context["ti"].xcom_push(key=FAILURE_XCOM, value=reason)
    raise AirflowFailException(reason) from cause


@contextmanager
def fail_if_refused(context: Context) -> Iterator[None]:
    """End the task as `fail` does if we refuse what is done in here: we would do so again."""
    try:
        yield
    except BatchmarkError as error:
        fail(context, str(error), error)


def console(width: int = 160) -> Console:
    """A console whose lines go to the log."""
    return Console(file=cast("IO[str]", _Lines()), width=width)


class _Lines(io.TextIOBase):
    """Text that is told line by line."""

    def __init__(self) -> None:
        self._rest = ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            tell(line)
        return len(text)
