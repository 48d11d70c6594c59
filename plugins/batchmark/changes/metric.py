"""The metrics that a history's series measure."""

from __future__ import annotations

from enum import StrEnum


class Metric(StrEnum):
    """A series' metric; the values are the names used in records, settings and URLs."""

    TIME = "time"
    PRICE = "price"
    NOISE = "noise"
    SPEEDUP = "speedup"
