"""Remembers the queues that comparisons used, so that the leak guard can look for jobs in them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from pydantic import AwareDatetime

from batchmark.aws.result_bucket import RunStore
from batchmark.core.names import slug
from batchmark.core.record import Record

FOLDER = "guard/queues/"
REMEMBERED = timedelta(days=30)  # longer than any job waits and runs


class KnownQueue(Record):
    """A queue, and when a comparison last planned to use it."""

    job_queue: str
    planned_at: AwareDatetime


def remember(store: RunStore, queues: Iterable[str], now: datetime) -> None:
    """Store the ARNs of queues before jobs are submitted to them."""
    for queue in sorted(queues):
        known = KnownQueue(job_queue=queue, planned_at=now)
        store.put(f"{FOLDER}{slug(queue)}.json", known.model_dump_json(indent=2))


def remembered(store: RunStore, now: datetime) -> list[str]:
    """Return the ARNs of recently used queues."""
    found = (store.record(KnownQueue, key) for key in store.keys(FOLDER))  # None: not ours
    return [one.job_queue for one in found if one and now - one.planned_at <= REMEMBERED]
