"""One figure that another tool measured, and the row that it becomes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from batchmark.estimate import Median
from batchmark.history.columns import IMPORTED
from batchmark.history.imports.units import to_seconds
from batchmark.history.rows import figures_of, when
from batchmark.series import parameters_json
from batchmark_job.result import Device

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from batchmark.history.rows import Row

UNKNOWN = "unknown"


@dataclass(frozen=True)
class ForeignMeasurement:
    """A benchmark's figure at one point of its parameters.

    Attributes:
        commit: what was measured; None where the tool did not know.
        recorded_at: when, or the time of its commit.
        figures: columns of the history that are statistics.
        machine: columns of the history that tell what it ran on.
        reason: why there are no figures.
        skipped: it was not to be measured at this point.

    Raises:
        TypeError: the commit is no text.
        ValueError: the time is none in UTC.
    """

    commit: str | None
    recorded_at: datetime
    workload: str
    parameters: Mapping[str, Any]
    figures: Row = field(default_factory=dict)
    machine: Row = field(default_factory=dict)
    reason: str | None = None
    skipped: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.commit, str | None):
            raise TypeError(f"the commit {self.commit!r:.100} is no text")
        try:
            self.recorded_at.astimezone(UTC)
        except OverflowError:
            raise ValueError(f"{self.recorded_at} is no date in UTC") from None

    @property
    def run_id(self) -> str:
        """What was measured at one time, of one commit, is a run."""
        moment = self.recorded_at.astimezone(UTC)
        return f"{self.commit or IMPORTED}__{moment:%Y-%m-%dT%H:%M:%SZ}"

    def row(self, *, target: str, device: Device, raw_key: str) -> Row:
        unmeasured = "skipped" if self.skipped else "failed"
        return {
            "run_id": self.run_id,
            "purpose": "scheduled",
            "raw_key": raw_key,
            "suite": IMPORTED,
            "workload": self.workload,
            "parameters": parameters_json(self.parameters),
            "dtype": UNKNOWN,
            "target": target,
            "requested_device": device.value,
            "actual_device": device.value,
            "gpu_model": UNKNOWN if device is Device.CUDA else None,
            "cpu_model": UNKNOWN,
            "code_version": self.commit and self.commit[:12],
            "status": unmeasured if self.reason else "measured",
            "reason": self.reason,
            **when(self.recorded_at),
            **self.machine,
            **self.figures,
        }


class Parsed(NamedTuple):
    """What a file holds: times of calls, and how many figures in each unit of anything else."""

    measurements: list[ForeignMeasurement]
    refused: Counter[str]


def moment_of(milliseconds: float) -> datetime:
    """A time as JavaScript counts it.

    Raises:
        ValueError: it is beyond the calendar, or no number.
    """
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, OSError, TypeError, ValueError):
        raise ValueError(f"{milliseconds!r:.100} is no date in milliseconds") from None


def figures_of_samples(samples: Sequence[float], name: str) -> Row:
    """Of times a call in seconds, one by one.

    Raises:
        ValueError: one of them is zero, negative or not finite.
    """
    for value in samples:
        to_seconds(value, "s")
    return {"samples": len(samples), **figures_of(Median([samples], seed=name))}
