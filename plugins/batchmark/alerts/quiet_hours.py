"""Hours in which messages are held, by the clock of a place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, field_validator

from batchmark.record import Record

Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WEEKDAYS: tuple[Weekday, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
# Longer than any pause between a week's hours; who holds messages for longer holds them for ever.
LONGEST_HOLD = timedelta(days=8)

Clock = Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$", description="HH:MM")]


class QuietHours(Record):
    """From `start` to the next `end`, beginning on these days; if both are equal, for a day."""

    timezone: str = Field(description="such as Europe/Berlin")
    start: Clock
    end: Clock
    weekdays: tuple[Weekday, ...] = Field(default=WEEKDAYS, min_length=1)

    @field_validator("timezone")
    @classmethod
    def is_known(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError("no such time zone; name one as 'Europe/Berlin' or 'UTC'") from error
        return name

    def end_at(self, now: datetime) -> datetime | None:
        """When these hours end, in UTC; None if `now` is not one of them."""
        day = now.astimezone(ZoneInfo(self.timezone)).date()
        for begun_on in (day - timedelta(days=1), day):
            if WEEKDAYS[begun_on.weekday()] in self.weekdays:
                start, end = self._hours(begun_on)
                if start <= now < end:
                    return end
        return None

    def _hours(self, day: date) -> tuple[datetime, datetime]:
        """In UTC, for within one zone Python compares the clock's hands and not the time."""
        start, end = time.fromisoformat(self.start), time.fromisoformat(self.end)
        last = day + timedelta(days=end <= start)
        return self._utc(day, start), self._utc(last, end)

    def _utc(self, day: date, clock: time) -> datetime:
        return datetime.combine(day, clock, ZoneInfo(self.timezone)).astimezone(UTC)


def held_until(hours: Sequence[QuietHours], now: datetime) -> datetime | None:
    """When all of these are over; None if none of them is now.

    Raises:
        ValueError: they leave no time to send anything.
    """
    # Between zones Python never calls an hour equal that a clock shows twice.
    until = now = now.astimezone(UTC)
    while end := max(_ends(hours, until), default=None):
        until = end
        if until - now > LONGEST_HOLD:
            raise ValueError("these hours never end: leave time to send messages")
    return None if until == now else until


def _ends(hours: Iterable[QuietHours], now: datetime) -> Iterator[datetime]:
    return (end for one in hours if (end := one.end_at(now)))
