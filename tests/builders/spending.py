"""What runs booked, and the most that they can cost."""

from datetime import UTC, datetime

from batchmark.core.run import TargetWorst, WorstCase
from batchmark.runs.spending import RunSpending

PLANNED_AT = datetime(2026, 11, 20, 12, tzinfo=UTC)


def build_spending(run_id, **fields):
    values = {"planned_at": PLANNED_AT, "generation": 0, "reserved_usd": 0.0} | fields
    return RunSpending(run_id=run_id, **values)


def worst_case(**fields):
    prices = {"region": "us-east-1", "prices_as_of": PLANNED_AT.date(), "prices_source": "a test"}
    return WorstCase(**{"targets": (), "usd": 1.0, "notes": ()} | prices | fields)


def priced(prices, attempts=1):
    """Targets by name at these prices (USD per hour), each of one job."""
    job = {"jobs": 1, "submissions": 1, "attempts": attempts, "timeout_seconds": 60, "usd": None}
    return [
        TargetWorst(target=name, instance_type=name, usd_per_hour=usd, **job)
        for name, usd in prices.items()
    ]
