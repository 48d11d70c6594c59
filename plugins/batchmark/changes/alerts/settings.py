"""Alert settings, read from JSON in the optional Airflow variable `batchmark_alerts`."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import Field, ValidationError

from batchmark.changes.metric import Metric
from batchmark.changes.records import Change, ChangePoint, SeriesKey
from batchmark.core.errors import AlertError
from batchmark.core.output import say
from batchmark.core.record import Record, first_problem

VARIABLE = "batchmark_alerts"
# Airflow's secrets backend may find the variable in SSM, beside the one that Terraform writes.
ABOUT_VARIABLE = f"correct it in Airflow (Admin, Variables) or in the SSM parameter {VARIABLE}"
DEFAULT_MINIMUM: Mapping[Metric, float] = {**dict.fromkeys(Metric, 0.03), Metric.NOISE: 1}

Minimum = dict[Metric, Annotated[float, Field(ge=0)]]


class SeriesMatch(Record):
    """Matches series by patterns such as `g5.*`; a field without a pattern matches anything."""

    suite: str | None = None
    target: str | None = None
    workload: str | None = None
    parameters: str | None = Field(
        default=None,
        description="pattern that matches the parameters as JSON with sorted keys and no "
        'spaces, such as *"size":5000*',
    )
    dtype: str | None = None

    def matches(self, series: SeriesKey) -> bool:
        """Check if a series matches; missing fields, such as a price's workload, count as empty."""
        return all(
            fnmatchcase(getattr(series, name) or "", pattern) for name, pattern in self if pattern
        )


class SeriesRule(Record):
    match: SeriesMatch
    minimum_change: Minimum = Field(
        default={}, description="overrides the general values for the metrics listed here"
    )
    mute: bool = Field(
        default=False, description="announce neither alerts nor improvements for these series"
    )


class AlertSettings(Record):
    """Settings that determine which changes to announce as alerts and improvements, and where.

    They apply only to new changes: an existing alert can recover even if its series are now muted.
    """

    minimum_change: Minimum = Field(
        default={},
        description="smallest relative change in a level to announce, such as 0.05 for 5 %; "
        "for noise, 1 means that it doubles. Default: 0.03, or 1 for noise",
    )
    false_alerts_a_month: float = Field(
        default=1,
        gt=0,
        description="number of false alerts a month that noise alone may cause in each "
        "suite; with a lower number, small changes are found later",
    )
    series: tuple[SeriesRule, ...] = Field(
        default=(), description="rules; the first one that matches a series applies to it"
    )
    quiet_hours: object = Field(
        default=None,
        description="left over from earlier releases; if set, it is ignored and a notice is "
        "printed",
    )
    apprise_conn_ids: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(),
        description="IDs of Airflow connections of type Apprise to notify in addition to the "
        "SNS topic",
    )
    improvements: bool = Field(
        default=True, description="also announce improvements other than recoveries"
    )

    def worth_telling(self, change: Change) -> Change | None:
        """Return the change without series that aren't announced, or None if no series are left."""
        points = tuple(point for point in change.points if self._announces(point))
        return change.model_copy(update={"points": points}) if points else None

    def _announces(self, point: ChangePoint) -> bool:
        rule = next((one for one in self.series if one.match.matches(point.series)), None)
        if rule and rule.mute:
            return False
        minimum = {
            **DEFAULT_MINIMUM,
            **self.minimum_change,
            **(rule.minimum_change if rule else {}),
        }
        # A level that doubles counts as much as one that halves.
        factor = 1 + point.change
        return max(factor, 1 / factor) - 1 >= minimum[point.metric]


def parse_settings(text: str | None) -> AlertSettings:
    """Read the variable's JSON, or return the defaults if there is none.

    Raises:
        AlertError: the JSON can't be used.
    """
    try:
        settings = AlertSettings.model_validate_json(text or "{}")
    except ValidationError as error:
        raise AlertError(
            f"Airflow variable '{VARIABLE}' can't be used: {first_problem(error)}, got "
            f"{error.errors()[0]['input']!r}; {ABOUT_VARIABLE}"
        ) from error
    if settings.quiet_hours is not None:
        say(
            f"Airflow variable '{VARIABLE}': quiet_hours is ignored, and messages are "
            "sent immediately. Remove it, and set quiet hours where the messages are "
            "received."
        )
    return settings
