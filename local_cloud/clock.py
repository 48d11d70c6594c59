"""The local cloud's clock and timers."""

import threading
import time
from collections.abc import Callable


def now_milliseconds() -> int:
    return int(time.time() * 1000)


def later(seconds: float, function: Callable[..., object], *arguments: object) -> threading.Timer:
    """Return a started timer that calls a function after `seconds`, unless the server exits."""
    timer = threading.Timer(seconds, function, arguments)
    timer.daemon = True
    timer.start()
    return timer
