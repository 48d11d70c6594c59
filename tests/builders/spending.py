"""What runs booked."""

from datetime import UTC, datetime

from batchmark.runs.spending import RunSpending

PLANNED_AT = datetime(2026, 11, 20, 12, tzinfo=UTC)


def build_spending(run_id, **fields):
    values = {"planned_at": PLANNED_AT, "generation": 0, "reserved_usd": 0.0} | fields
    return RunSpending(run_id=run_id, **values)
