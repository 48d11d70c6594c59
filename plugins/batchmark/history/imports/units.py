"""What other tools measure in, as seconds a call."""

from __future__ import annotations

import math

SECONDS = {
    **dict.fromkeys(("ns", "nsec", "nanosecond"), 1e-9),
    **dict.fromkeys(("us", "\N{GREEK SMALL LETTER MU}s", "usec", "microsecond"), 1e-6),
    **dict.fromkeys(("ms", "msec", "millisecond"), 1e-3),
    **dict.fromkeys(("s", "sec", "second"), 1.0),
    **dict.fromkeys(("min", "minute"), 60.0),
}
CALLS = ("call", "it", "iter", "iteration", "op", "operation", "run")


def to_seconds(value: float, unit: str) -> float | None:
    """A time (also one a call) or a rate of calls as seconds a call; None for any other unit.

    Raises:
        ValueError: no call takes that: zero, negative or not finite.
    """
    over, slash, under = unit.partition("/")
    over, under = _singular(over), _singular(under)
    is_time = over in SECONDS and (not slash or under in CALLS)
    if not (is_time or (over in CALLS and under in SECONDS)):
        return None
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{value:g} {unit} is no time of a call")
    return value * SECONDS[over] if is_time else SECONDS[under] / value


def _singular(name: str) -> str:
    name = name.strip().casefold()  # which has one sign for micro
    return name if name in SECONDS else name.removesuffix("s")
