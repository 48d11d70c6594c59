"""The queues of others that the leak guard looks into."""

from datetime import UTC, datetime, timedelta

from batchmark.aws.result_bucket import RunStore
from batchmark.runs.own_jobs.known_queues import remember, remembered
from tests.builders.leaks import ARN
from tests.stand_ins.bucket import MemoryBucket

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
OLD, NEW = f"{ARN}:job-queue/old", f"{ARN}:job-queue/new"


def test_a_queue_is_remembered_for_thirty_days_after_its_last_comparison():
    store = RunStore(MemoryBucket("results", "us-east-1"), "results", "run")
    store.put("guard/queues/notes.json", "{}")  # somebody else's
    assert remembered(store, NOW) == []
    remember(store, {OLD, NEW}, NOW)
    remember(store, [NEW], NOW + timedelta(days=5))
    for days, known in ((30, [NEW, OLD]), (31, [NEW]), (36, [])):
        assert sorted(remembered(store, NOW + timedelta(days=days))) == known
