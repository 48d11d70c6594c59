"""Settles what a run's file systems cost, once they are gone."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from batchmark.core.clusters.file_system_cost import exact_usd
from batchmark.runs.spending import run_spending

if TYPE_CHECKING:
    from batchmark.aws.result_bucket import RunStore


def settle_file_systems(
    store: RunStore,
    gone: Mapping[str, Mapping[str, Any]],
    now: datetime,
    *,
    any_left: bool = False,
) -> float | None:
    """Book what they cost; the sum in USD, None if unknown.

    It takes the place of the most that they could cost, unless another one of the run is left.
    `gone` are their last descriptions by id. One of a local cloud costs nothing.
    """
    plan = store.plan()
    layer = plan.worst_case.file_system if plan.worst_case else None
    booked = run_spending(store, plan.spending_key) if plan.spending_key else None
    if layer is None or booked is None or plan.spending_key is None or (any_left and not gone):
        return None
    price = layer.usd_per_gb_month
    usd: dict[str, float | None] = {}
    for file_system_id, described in gone.items():
        seconds = max(0.0, (now - described["CreationTime"]).total_seconds())
        if not store.is_aws():
            usd[file_system_id] = 0.0
        elif price is None:
            usd[file_system_id] = None
        else:
            amount = exact_usd(
                described["StorageCapacity"], seconds, price, _days(described["CreationTime"])
            )
            usd[file_system_id] = float(amount)
    record = booked.with_file_systems(usd, any_left=any_left)
    store.put(plan.spending_key, record.model_dump_json(indent=2))
    known = [amount for amount in usd.values() if amount is not None]
    return sum(known) if len(known) == len(usd) else None


def _days(moment: datetime) -> int:
    return monthrange(moment.year, moment.month)[1]
