"""The time as Batch gives it."""

import time


def now_milliseconds() -> int:
    return int(time.time() * 1000)
