"""Waiting for something real, which may not answer meanwhile."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# For what comes at once on an idle machine: on a busy one, a process may take a minute to start.
# Below pytest's own limit of a test, which would not say what was missing. What must not end by
# itself meanwhile sleeps for an hour.
PATIENCE_SECONDS = 600.0


def wait_for(
    condition: Callable[[], T | None],
    what: str,
    seconds: float = PATIENCE_SECONDS,
    *,
    every: float = 0.05,
    asked_again: tuple[type[Exception], ...] = (),
) -> T:
    """The condition's first true value; what raises one of `asked_again` is asked again."""
    end = time.monotonic() + seconds
    problem: Exception | None = None
    while time.monotonic() < end:
        try:
            if value := condition():
                return value
            problem = None
        except asked_again as error:
            problem = error
        time.sleep(every)
    raise TimeoutError(f"no {what} within {seconds:.0f} s{f' ({problem})' if problem else ''}")
