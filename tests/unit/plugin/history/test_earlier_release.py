"""A result bucket that release 0.1.0 wrote: fourteen runs, the last 30 % slower, one alert."""

import tarfile

import pytest

from batchmark.aws.result_bucket import COLLECTED, RunStore
from batchmark.changes.alerts.store import AlertStore
from batchmark.changes.records import RunChanges
from batchmark.changes.suspects import Suspects
from batchmark.core.run import RunPlan, StoredRun
from batchmark.history.columns import ALL_COLUMNS
from batchmark.history.rebuild import rebuild
from batchmark.report.change_records import ChangesSection
from batchmark.report.model import Report
from batchmark.runs.collected_runs import readable_run
from batchmark.runs.spending import month_spending
from tests.builders.history import BUCKET, REGION, ResultBucket
from tests.paths import DATA
from tests.stand_ins.bucket import MemoryBucket

LAST = "run-014"


@pytest.fixture(scope="module")
def bucket():
    made = ResultBucket(MemoryBucket(BUCKET, REGION), [])
    with tarfile.open(DATA / "buckets" / "0.1.0.tar.xz") as archive:
        for member in archive:
            made.put(member.name, archive.extractfile(member).read())
    return made


@pytest.fixture(scope="module")
def store(bucket):
    return RunStore(bucket.s3, BUCKET, LAST)


RECORDS = {
    "plan": RunPlan,
    "collected": StoredRun,
    "suspects": Suspects,
    "changes": RunChanges,
    "changes_section": ChangesSection,
    "report": Report,
}


def test_all_that_a_run_left_is_read(store):
    for name, record in RECORDS.items():
        assert record.model_validate_json(store.read(f"{store.prefix}{name}.json"))
    run = readable_run(store, store.prefix + COLLECTED)
    assert run.lost == ()
    assert {job.document.run_id for job in run.jobs} == {LAST}
    (alert,) = AlertStore(store).alerts()
    (point,) = alert.change.points
    assert (point.series.target, round(point.change, 1)) == ("g5.xlarge", 0.3)
    assert AlertStore(store).message(LAST).run_id == LAST
    assert float(month_spending(store, "costs/2026-11/x.json").exact_usd) == 1.5


def test_history_is_read_and_rebuilt_as_it_was(bucket):
    before = bucket.history.read(ALL_COLUMNS).to_pylist()
    assert len(before) == 31
    done = rebuild(bucket.s3, BUCKET, REGION)
    # Each file gets the columns of this release.
    assert (done.sources, len(done.written), done.removed) == (14, 14, [])
    after = bucket.history.read(ALL_COLUMNS).to_pylist()
    assert sorted(after, key=str) == sorted(before, key=str)
    assert not rebuild(bucket.s3, BUCKET, REGION).written
