"""What series of a history are of."""

from __future__ import annotations

from enum import StrEnum


class Metric(StrEnum):
    """What a series is of, by the name that records, settings and addresses have."""

    TIME = "time"
    PRICE = "price"
    NOISE = "noise"
    SPEEDUP = "speedup"
