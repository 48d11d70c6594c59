"""What is told, when and where: the Airflow variable `batchmark_alerts`, JSON; none is needed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Annotated, Self

from pydantic import Field, ValidationError, model_validator

from batchmark.alerts.quiet_hours import QuietHours, held_until
from batchmark.change_records import Change, ChangePoint, Metric, SeriesKey
from batchmark.exceptions import AlertError
from batchmark.record import Record, first_problem

VARIABLE = "batchmark_alerts"
# Airflow's secrets backend may find the variable in SSM, beside Terraform's.
ABOUT_VARIABLE = f"correct it in Airflow (Admin, Variables) or in the SSM parameter {VARIABLE}"
DEFAULT_MINIMUM: Mapping[Metric, float] = {"time": 0.03, "price": 0.03, "noise": 1, "speedup": 0.03}

Minimum = dict[Metric, Annotated[float, Field(ge=0)]]


class SeriesMatch(Record):
    """Series by patterns such as `g5.*`; what is not named may be anything."""

    suite: str | None = None
    target: str | None = None
    workload: str | None = None
    parameters: str | None = Field(
        default=None, description='of the JSON, as in *"size":5000*; keys sorted, no spaces'
    )
    dtype: str | None = None

    def matches(self, series: SeriesKey) -> bool:
        """A price has no workload, so nothing that names one matches it."""
        return all(
            fnmatchcase(getattr(series, name) or "", pattern) for name, pattern in self if pattern
        )


class SeriesRule(Record):
    """What holds for some series only."""

    match: SeriesMatch
    minimum_change: Minimum = Field(default={}, description="for the metrics named; see below")
    mute: bool = Field(default=False, description="no alert of these, and no good news")


class AlertSettings(Record):
    """Which changes become alerts and good news, and how they are told.

    They decide what is begun to be told: an alert that is there recovers also if it is muted now.
    """

    minimum_change: Minimum = Field(
        default={},
        description="smallest share by which a level has to move, as 0.05 for 5 %; noise 1 is "
        "twice the noise. Metrics not named have 0.03, noise 1",
    )
    series: tuple[SeriesRule, ...] = Field(default=(), description="the first that matches holds")
    quiet_hours: tuple[QuietHours, ...] = ()
    apprise_conn_ids: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(), description="Airflow connections of type Apprise, beside the SNS topic"
    )
    improvements: bool = Field(default=True, description="tell what improved by itself, too")

    @model_validator(mode="after")
    def leave_time_to_send(self) -> Self:
        held_until(self.quiet_hours, datetime(2026, 1, 1, tzinfo=UTC))
        return self

    def worth_telling(self, change: Change) -> Change | None:
        """The change in those of its series that are told; None if there is none."""
        points = tuple(point for point in change.points if self._tells(point))
        return change.model_copy(update={"points": points}) if points else None

    def _tells(self, point: ChangePoint) -> bool:
        rule = next((one for one in self.series if one.match.matches(point.series)), None)
        if rule and rule.mute:
            return False
        minimum = {
            **DEFAULT_MINIMUM,
            **self.minimum_change,
            **(rule.minimum_change if rule else {}),
        }
        # The same for a level that doubles and for one that falls to a half.
        factor = 1 + point.change
        return max(factor, 1 / factor) - 1 >= minimum[point.metric]


def parse_settings(text: str | None) -> AlertSettings:
    """Read the variable's JSON; the defaults if there is none.

    Raises:
        AlertError: it can't be used.
    """
    try:
        return AlertSettings.model_validate_json(text or "{}")
    except ValidationError as error:
        raise AlertError(
            f"Airflow variable '{VARIABLE}' can't be used: {first_problem(error)}, got "
            f"{error.errors()[0]['input']!r}; {ABOUT_VARIABLE}"
        ) from error


def load_settings() -> AlertSettings:
    """Read the settings through Airflow's secrets backends.

    Raises:
        AlertError: they can't be used.
    """
    from airflow.sdk import Variable

    return parse_settings(Variable.get(VARIABLE, default=None))
