"""Limits that decide when to stop sampling a row."""

from __future__ import annotations

import math
from dataclasses import dataclass

from batchmark_job.errors import InputError
from batchmark_job.result.values import MOST_SAMPLES

PATIENCE = 10  # so that calls as long as max_seconds still get minimum_samples, 10


@dataclass(frozen=True)
class RowLimits:
    """Limits that decide when to stop sampling a row, over all turns in all `processes`.

    Sampling stops as soon as half the width of the median's confidence interval is at most
    `precision` of the median, or else after `samples` or `max_seconds`. At least `minimum_samples`
    are taken, unless that would take more than PATIENCE times `max_seconds`. A row that is precise
    earlier is still sampled for a tenth of `max_seconds`, to cover more than a moment's noise.
    """

    samples: int = 1000
    max_seconds: float = 10.0
    precision: float = 0.01  # relative half-width of the median's interval
    minimum_samples: int = 10
    processes: int = 3  # that measure a row in turns
    turns: int = 4  # of each process, between other rows' turns

    def __post_init__(self) -> None:
        if self.samples < self.minimum_samples:
            raise InputError(
                f"--samples {self.samples} is too few; use {self.minimum_samples} or more"
            )
        if self.samples > MOST_SAMPLES:
            raise InputError(
                f"--samples {self.samples} is too many; a result document holds at most "
                f"{MOST_SAMPLES} per row"
            )
        if not 0 <= self.precision < 1:
            raise InputError(
                f"--precision {self.precision} is not a fraction between 0 and 1; use 0.01 for 1 %"
            )
        if not (math.isfinite(self.max_seconds) and self.max_seconds > 0):
            raise InputError(
                f"--max-seconds {self.max_seconds} is not a finite number greater than 0"
            )

    def of_one_turn(self) -> RowLimits:
        """Return the limits for a single turn in a single process."""
        parts = self.processes * self.turns
        return RowLimits(
            samples=max(math.ceil(self.samples / parts), 1),
            max_seconds=self.max_seconds / parts,
            precision=min(self.precision * math.sqrt(parts), 0.99),
            minimum_samples=math.ceil(self.minimum_samples / parts),
            processes=1,
            turns=1,
        )
