"""Hours in which nothing is sent: over midnight, over weekends, and when clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from batchmark.alerts.quiet_hours import QuietHours, held_until

BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = QuietHours(timezone="Europe/Berlin", start="22:00", end="07:30")
# 20 November 2026 is a Friday.
WEEKEND = QuietHours(timezone="Europe/Berlin", start="00:00", end="00:00", weekdays=("sat", "sun"))


def berlin(day, clock, month=11, **fields):
    hour, minute = map(int, clock.split(":"))
    return datetime(2026, month, day, hour, minute, tzinfo=BERLIN, **fields)


@pytest.mark.parametrize(
    ("now", "until"),
    [
        (berlin(20, "21:59"), None),
        (berlin(20, "22:00"), berlin(21, "07:30")),
        (berlin(20, "23:59"), berlin(21, "07:30")),
        (berlin(20, "00:00"), berlin(20, "07:30")),
        (berlin(20, "07:29"), berlin(20, "07:30")),
        (berlin(20, "07:30"), None),
        (berlin(20, "12:00"), None),
    ],
)
def test_a_night_spans_midnight_and_ends_on_the_minute(now, until):
    assert held_until([NIGHT], now) == until
    assert held_until([NIGHT], now.astimezone(UTC)) == until


def test_hours_within_a_day():
    lunch = QuietHours(timezone="UTC", start="12:00", end="13:00")
    assert held_until([lunch], datetime(2026, 11, 20, 12, 30, tzinfo=UTC)) == datetime(
        2026, 11, 20, 13, tzinfo=UTC
    )
    assert held_until([lunch], datetime(2026, 11, 20, 13, tzinfo=UTC)) is None


def test_the_weekday_is_the_one_that_they_begin_on():
    friday_night = QuietHours(
        timezone="Europe/Berlin", start="22:00", end="07:30", weekdays=("fri",)
    )
    assert held_until([friday_night], berlin(21, "03:00")) == berlin(21, "07:30")
    assert held_until([friday_night], berlin(20, "03:00")) is None
    assert held_until([friday_night], berlin(21, "23:00")) is None


def test_nights_and_weekends_together_hold_until_both_are_over():
    assert held_until([NIGHT, WEEKEND], berlin(20, "23:00")) == berlin(23, "07:30")
    assert held_until([NIGHT, WEEKEND], berlin(22, "12:00")) == berlin(23, "07:30")
    assert held_until([WEEKEND], berlin(22, "12:00")) == berlin(23, "00:00")


def test_the_night_in_which_clocks_go_forward_is_an_hour_shorter():
    until = held_until([NIGHT], berlin(28, "23:00", month=3))
    assert until == datetime(2026, 3, 29, 5, 30, tzinfo=UTC)
    assert until - berlin(28, "22:00", month=3).astimezone(UTC) == timedelta(hours=8.5)
    assert held_until([NIGHT], datetime(2026, 3, 29, 5, 30, tzinfo=UTC)) is None


def test_the_night_in_which_clocks_go_back_is_an_hour_longer():
    assert held_until([NIGHT], berlin(24, "23:00", month=10)) == datetime(
        2026, 10, 25, 6, 30, tzinfo=UTC
    )
    # Both half past twos are within it.
    for fold in (0, 1):
        assert held_until([NIGHT], berlin(25, "02:30", month=10, fold=fold)) == datetime(
            2026, 10, 25, 6, 30, tzinfo=UTC
        )


def test_an_end_that_the_clock_shows_twice_is_the_first_of_them():
    short = QuietHours(timezone="Europe/Berlin", start="22:00", end="02:30")
    first, second = (berlin(25, "02:30", month=10, fold=fold).astimezone(UTC) for fold in (0, 1))
    assert held_until([short], berlin(25, "02:29", month=10)) == first
    assert held_until([short], first) is None
    assert held_until([short], second) is None


def test_a_start_that_the_clock_skips_begins_all_the_same():
    skipped = QuietHours(timezone="Europe/Berlin", start="02:30", end="05:00")
    assert held_until([skipped], berlin(29, "04:00", month=3)) == berlin(29, "05:00", month=3)


def test_hours_that_never_end_are_refused():
    always = [QuietHours(timezone="UTC", start="08:00", end="08:00")]
    with pytest.raises(ValueError, match="never end"):
        held_until(always, berlin(20, "12:00"))


def test_no_quiet_hours_hold_nothing():
    assert held_until([], berlin(20, "03:00")) is None
