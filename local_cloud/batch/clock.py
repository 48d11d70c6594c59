"""The time as Batch gives it."""

import time


def now_milliseconds() -> int:
    """The epoch time in milliseconds."""
    return int(time.time() * 1000)
