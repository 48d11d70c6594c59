"""Converts a row's samples to displayed values: seconds, or the metric of a user's own job.

A metric's sample is its value, or 1 / value if higher is better, so that lower samples are better
in every row. Values are only for display.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Self

from batchmark.core import formatting
from batchmark.core.formatting import Figure, Others
from batchmark.core.intervals import Estimate
from batchmark_job.result.own_job import BETTER, COLD, HIGHER, LOWER, METRIC, START, UNIT
from batchmark_job.result.values import Parameter

WORSE_OR_BETTER = {"slower": "worse", "faster": "better"}


class ToldMetric(NamedTuple):
    """The metric that a row of a user's own job reports.

    Besides its name and unit, it says whether higher is better.
    """

    name: str
    unit: str
    higher_is_better: bool

    @classmethod
    def of(cls, parameters: Mapping[str, Parameter]) -> Self | None:
        """Parse a row's metric; None if the row measures seconds."""
        name, unit, better = (parameters.get(key) for key in (METRIC, UNIT, BETTER))
        if isinstance(name, str) and isinstance(unit, str) and better in (HIGHER, LOWER):
            return cls(name, unit, better == HIGHER)
        return None

    def value(self, sample: float) -> float:
        """Convert a sample (or a median) above 0 to the metric's unit."""
        return 1 / sample if self.higher_is_better else sample

    def estimate(self, sample: Estimate) -> Estimate:
        """Like `value`, but for an estimate with its interval."""
        return sample.inverse() if self.higher_is_better else sample


def is_cold(parameters: Mapping[str, Parameter]) -> bool:
    """Return whether a row of a user's own job has its jobs on instances started for them."""
    return parameters.get(START) == COLD


def value(parameters: Mapping[str, Parameter], sample: float) -> float:
    """Convert a row's sample or median to the value shown to people."""
    told = ToldMetric.of(parameters)
    return told.value(sample) if told else sample


def value_text(parameters: Mapping[str, Parameter], read: float) -> str:
    """Format a value returned by `value`, with its unit."""
    told = ToldMetric.of(parameters)
    return formatting.amount(read, told.unit) if told else formatting.seconds(read)


def text(parameters: Mapping[str, Parameter], sample: float) -> str:
    """Format a row's sample or median with its unit."""
    return value_text(parameters, value(parameters, sample))


def figure(parameters: Mapping[str, Parameter], sample: Estimate, beside: Others = ()) -> Figure:
    """Like `text`, but with an interval; `beside` contains the row's other figures."""
    told = ToldMetric.of(parameters)
    if told is None:
        return formatting.time(sample, beside)
    others = [told.estimate(one) for one in beside if one]
    return formatting.value(told.estimate(sample), told.unit, others)


def change(parameters: Mapping[str, Parameter], share: float) -> float:
    """Convert a relative change in a row's samples to one in its values; both are above -1."""
    told = ToldMetric.of(parameters)
    return 1 / (1 + share) - 1 if told and told.higher_is_better else share


def word(parameters: Mapping[str, Parameter], of_seconds: str) -> str:
    """For a metric, replace "slower" with "worse" and "faster" with "better"."""
    return WORSE_OR_BETTER.get(of_seconds, of_seconds) if ToldMetric.of(parameters) else of_seconds
