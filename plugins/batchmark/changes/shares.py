"""A proportion with its confidence interval."""

from __future__ import annotations

from typing import Self

import scipy
from pydantic import Field

from batchmark.core import formatting
from batchmark.core.record import Record
from batchmark_job.result.confidence import CONFIDENCE, CONFIDENCE_TEXT


class Rate(Record):
    hits: int = Field(ge=0)
    cases: int = Field(ge=1)
    low: float = Field(
        ge=0, le=1, description=f"lower end of the {CONFIDENCE_TEXT} Wilson interval"
    )
    high: float = Field(ge=0, le=1)

    @classmethod
    def of(cls, hits: int, cases: int) -> Self:
        interval = scipy.stats.binomtest(hits, cases).proportion_ci(CONFIDENCE, "wilson")
        return cls(hits=hits, cases=cases, low=float(interval.low), high=float(interval.high))

    @property
    def share(self) -> float:
        return self.hits / self.cases

    @property
    def interval(self) -> str:
        return f"{formatting.percent(self.low)} to {formatting.percent(self.high)}"
