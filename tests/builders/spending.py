"""What runs booked, and the most that they can cost."""

from datetime import UTC, datetime

from batchmark.core.run import WorstCase
from batchmark.runs.spending import RunSpending

PLANNED_AT = datetime(2026, 11, 20, 12, tzinfo=UTC)


def build_spending(run_id, **fields):
    values = {"planned_at": PLANNED_AT, "generation": 0, "reserved_usd": 0.0} | fields
    return RunSpending(run_id=run_id, **values)


def worst_case(**fields):
    prices = {"region": "us-east-1", "prices_as_of": PLANNED_AT.date(), "prices_source": "a test"}
    return WorstCase(**{"targets": (), "usd": 1.0, "notes": ()} | prices | fields)
