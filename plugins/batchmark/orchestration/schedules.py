"""Counts how often a schedule is due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from croniter import croniter, croniter_range


def runs_next_month(text: str | None, now: datetime) -> int | None:
    """Count a cron schedule's runs in the calendar month after `now` (UTC); None for others."""
    if not text or not croniter.is_valid(text):
        return None
    start = (now.astimezone(UTC).replace(day=1) + timedelta(days=32)).replace(
        day=1, hour=0, minute=0, second=0, microsecond=0
    )
    end = (start + timedelta(days=32)).replace(day=1)
    ticks = croniter_range(start, end - timedelta(seconds=1), text)
    return sum(1 for _ in ticks)
