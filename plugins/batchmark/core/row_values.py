"""What a row's samples stand for: seconds, or the values of a metric that an own job told.

A sample of a metric is its value, or 1 / value where higher is better, so that less is better in
every row. People read values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Self

from batchmark.core import formatting
from batchmark.core.formatting import Figure, Others
from batchmark.core.intervals import Estimate
from batchmark_job.result.own_job import BETTER, HIGHER, LOWER, METRIC, UNIT
from batchmark_job.result.values import Parameter

WORSE_OR_BETTER = {"slower": "worse", "faster": "better"}


class ToldMetric(NamedTuple):
    """The metric of a row."""

    name: str
    unit: str
    higher_is_better: bool

    @classmethod
    def of(cls, parameters: Mapping[str, Parameter]) -> Self | None:
        """None for a row of seconds."""
        name, unit, better = (parameters.get(key) for key in (METRIC, UNIT, BETTER))
        if isinstance(name, str) and isinstance(unit, str) and better in (HIGHER, LOWER):
            return cls(name, unit, better == HIGHER)
        return None

    def value(self, sample: float) -> float:
        """In the metric's unit, of a sample or a median of samples above 0."""
        return 1 / sample if self.higher_is_better else sample

    def estimate(self, sample: Estimate) -> Estimate:
        """As value, with its interval."""
        return sample.inverse() if self.higher_is_better else sample


def value(parameters: Mapping[str, Parameter], sample: float) -> float:
    """A sample of a row, or a median of samples, as people read it."""
    told = ToldMetric.of(parameters)
    return told.value(sample) if told else sample


def value_text(parameters: Mapping[str, Parameter], read: float) -> str:
    """What `value` returns, with its unit."""
    told = ToldMetric.of(parameters)
    return formatting.amount(read, told.unit) if told else formatting.seconds(read)


def text(parameters: Mapping[str, Parameter], sample: float) -> str:
    """A sample of a row, or a median of samples, with its unit."""
    return value_text(parameters, value(parameters, sample))


def figure(parameters: Mapping[str, Parameter], sample: Estimate, beside: Others = ()) -> Figure:
    """As text, with its interval; `beside` are figures of the same row."""
    told = ToldMetric.of(parameters)
    if told is None:
        return formatting.time(sample, beside)
    others = [told.estimate(one) for one in beside if one]
    return formatting.value(told.estimate(sample), told.unit, others)


def change(parameters: Mapping[str, Parameter], share: float) -> float:
    """By which share a value moves if its row's samples move by that share; both above -1."""
    told = ToldMetric.of(parameters)
    return 1 / (1 + share) - 1 if told and told.higher_is_better else share


def word(parameters: Mapping[str, Parameter], of_seconds: str) -> str:
    """A metric is worse or better where a time is slower or faster."""
    return WORSE_OR_BETTER.get(of_seconds, of_seconds) if ToldMetric.of(parameters) else of_seconds
