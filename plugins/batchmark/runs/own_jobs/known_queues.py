"""The queues that comparisons used, whoever made them: where the leak guard looks for our jobs."""

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
    """A queue, and when a comparison was last planned with it."""

    job_queue: str
    planned_at: AwareDatetime


def remember(store: RunStore, queues: Iterable[str], now: datetime) -> None:
    """Keep the ARNs of queues before a job is submitted to them."""
    for queue in sorted(queues):
        known = KnownQueue(job_queue=queue, planned_at=now)
        store.put(f"{FOLDER}{slug(queue)}.json", known.model_dump_json(indent=2))


def remembered(store: RunStore, now: datetime) -> list[str]:
    """The ARNs of the queues that were used lately."""
    found = (store.record(KnownQueue, key) for key in store.keys(FOLDER))  # None: not ours
    return [one.job_queue for one in found if one and now - one.planned_at <= REMEMBERED]
