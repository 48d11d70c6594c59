"""A rebuild gives the history that was written, of the raw documents and the imported files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from batchmark import prices
from batchmark.history import rebuild as rebuilding
from batchmark.history.rebuild import rebuild
from batchmark.history.rows import rows_of
from batchmark.history.store import HistoryStore, run_prices
from batchmark.prices import SpotPrice
from batchmark.store import COLLECTED, PRICES, RunStore
from tests.unit.history.builders import BUCKET, NOON, REGION, finished, run_of, two_targets
from tests.unit.history.test_history_imports import GITHUB, PYTEST, imported
from tests.unit.run_builders import PRICES as TABLE
from tests.unit.run_builders import build_job, build_row, noisy

HISTORY = "history/"
FIRST, SECOND = two_targets(), two_targets(1)


def rebuilt(bucket, **options):
    return rebuild(bucket.s3, BUCKET, REGION, **options)


@pytest.fixture
def filled(bucket):
    """Two runs, one over a month's end, and two imported files."""
    bucket.append(FIRST)
    month_end = datetime(2026, 11, 30, 23, 30, tzinfo=UTC)
    jobs = [
        finished(build_job("c5.2xlarge", [build_row(noisy(n))], repeat=n), at)
        for n, at in enumerate((month_end, month_end + timedelta(hours=1)), start=1)
    ]
    bucket.append(run_of(*jobs, run_id="manual__2026-11-30T23:00:00+00:00"))
    for path in (PYTEST, GITHUB):
        bucket.history.append_import(imported(path))
    return bucket


def test_a_lost_history_comes_back_byte_by_byte(filled):
    before = filled.objects()
    for key in filled.objects(HISTORY):
        filled.history.remove(key)
    done = rebuilt(filled)
    assert filled.objects() == before
    assert (done.sources, sorted(done.written)) == (4, sorted(filled.objects(HISTORY)))
    assert (done.unchanged, done.removed, done.uncounted, done.problems) == (0, [], [], [])


def test_a_history_that_is_right_is_not_written_again(filled):
    filled.calls.clear()
    done = rebuilt(filled)
    assert (done.written, done.removed) == ([], [])
    assert done.unchanged == len(filled.objects(HISTORY)) == 6
    assert filled.called("PutObject") == filled.called("DeleteObject") == []


def test_what_is_wrong_is_written_first_and_what_is_too_much_goes_then(filled):
    before = filled.objects()
    (key, *_) = filled.objects(HISTORY)
    stale = f"{HISTORY}suite=blog/month=2026-09/gone.parquet"
    foreign = f"{HISTORY}notes.txt"
    filled.put(key, b"damaged")
    for name in (stale, foreign):
        filled.put(name, b"of no run")
    filled.calls.clear()
    done = rebuilt(filled)
    assert filled.objects() == before
    assert (done.written, done.removed) == ([key], [foreign, stale])
    changes = [call for call in filled.calls if call[0] in ("PutObject", "DeleteObject")]
    assert changes == [("PutObject", key), ("DeleteObject", foreign), ("DeleteObject", stale)]


def test_a_dry_run_tells_the_same_and_changes_nothing(filled):
    (key, *_) = filled.objects(HISTORY)
    stale = f"{HISTORY}suite=blog/month=2026-09/gone.parquet"
    filled.put(key, b"damaged")
    filled.put(stale, b"of no run")
    before = filled.objects()
    done = rebuilt(filled, dry_run=True)
    assert (done.written, done.removed) == ([key], [stale])
    assert filled.objects() == before


def test_nothing_outside_the_history_is_ever_changed(filled):
    outside = {key: body for key, body in filled.objects().items() if not key.startswith(HISTORY)}
    filled.put(f"{HISTORY}suite=blog/month=2026-11/other.parquet", b"of no run")
    filled.calls.clear()
    rebuilt(filled)
    changed = filled.called("PutObject") + filled.called("DeleteObject")
    assert changed
    assert all(key.startswith(HISTORY) for key in changed)
    now = {key: body for key, body in filled.objects().items() if not key.startswith(HISTORY)}
    assert now == outside


def test_the_raw_document_counts_and_not_its_copy(bucket):
    bucket.append(FIRST)
    right = bucket.objects(HISTORY)
    bent = [
        job.model_copy(update={"document": job.document.model_copy(update={"measurements": ()})})
        for job in FIRST.jobs
    ]
    changed = FIRST.model_copy(update={"jobs": tuple(bent)})
    bucket.put(
        f"runs/{RunStore(None, '', FIRST.run_id).name}/{COLLECTED}", changed.model_dump_json()
    )
    assert rebuilt(bucket).problems == []
    assert bucket.objects(HISTORY) == right


@pytest.mark.parametrize("left", [None, '{"schema_version": 2, "run_id'])
def test_where_a_raw_document_is_lost_its_copy_counts(bucket, left):
    bucket.append(FIRST)
    right = bucket.objects(HISTORY)
    key = FIRST.jobs[0].document_uri.removeprefix(f"s3://{BUCKET}/")
    bucket.history.remove(key)
    if left:
        bucket.put(key, left)
    (problem,) = rebuilt(bucket).problems
    assert key in problem
    assert f"its copy in runs/scheduled__2026-11-20T12-00-00-00-00/{COLLECTED}" in problem
    assert bucket.objects(HISTORY) == right


@pytest.mark.parametrize("name", [COLLECTED, PRICES])
def test_rows_of_a_run_that_cannot_be_read_stay(bucket, name):
    bucket.append(FIRST)
    bucket.append(SECOND)
    right = bucket.objects(HISTORY)
    bucket.put(f"runs/scheduled__2026-11-20T12-00-00-00-00/{name}", '{"of": "another release"}')
    (problem,) = rebuilt(bucket).problems
    assert problem.startswith("runs/scheduled__2026-11-20T12-00-00-00-00/ is not of this release (")
    assert bucket.objects(HISTORY) == right


def test_rows_of_an_import_that_cannot_be_read_stay(filled):
    right = filled.objects(HISTORY)
    filled.put(imported(PYTEST).key, '{"format": "of another release"}')
    broken = imported(GITHUB).model_copy(update={"text": "[" * 100_000})
    filled.put(imported(GITHUB).key, broken.model_dump_json())
    done = rebuilt(filled)
    assert all("can't be imported again" in problem for problem in done.problems)
    assert len(done.problems) == 2
    assert filled.objects(HISTORY) == right


def test_documents_of_no_collected_run_are_named_and_not_imported(bucket):
    bucket.append(FIRST)
    by_hand = FIRST.jobs[0].document.model_copy(update={"run_id": "manual"}).to_json()
    superseded = FIRST.jobs[0].planned.result_prefix.removeprefix(f"s3://{BUCKET}/") + "other.json"
    for key in ("raw/manual/local.json", "raw/not-collected-yet/g5/blog/1/j.1.json", superseded):
        bucket.put(key, by_hand)
    right = bucket.objects(HISTORY)
    done = rebuilt(bucket)
    assert done.uncounted == ["raw/manual/local.json", "raw/not-collected-yet/g5/blog/1/j.1.json"]
    assert bucket.objects(HISTORY) == right


def test_a_run_that_is_appended_meanwhile_stays(bucket):
    bucket.append(FIRST)

    def append(steps, _):
        bucket.append(SECOND)
        return steps

    assert rebuilt(bucket, progress=append).removed == []
    assert len(bucket.objects(HISTORY)) == 2


@pytest.mark.parametrize("left", [None, b"damaged"])
@pytest.mark.parametrize("moment", ["after its look", "amid its look"])
def test_what_a_run_appends_after_its_folder_was_read_stays(bucket, monkeypatch, left, moment):
    (key,) = bucket.append(FIRST)
    bucket.history.remove(key)
    if left:
        bucket.put(key, left)
    changed = iter([two_targets(slowdown=2.0)])  # once

    def append():
        for run in changed:
            bucket.append(run)

    def rows(*arguments):
        append()
        return rows_of(*arguments)

    def progress(looks, _):
        for look in looks:
            append()
            yield look

    if moment == "amid its look":
        monkeypatch.setattr(rebuilding, "rows_of", rows)
        done = rebuilt(bucket)
    else:
        done = rebuilt(bucket, progress=progress)
    assert (done.written, done.unchanged, done.removed, done.problems) == ([], 1, [], [])
    medians = bucket.history.read(["median_seconds"])["median_seconds"].to_pylist()
    assert sorted(medians) == pytest.approx([0.002, 0.002, 0.04, 0.04], rel=0.05)


def test_a_run_that_goes_meanwhile_is_looked_at_again(bucket):
    (key,) = bucket.append(FIRST)
    right = bucket.objects(HISTORY)
    bucket.put(key, b"damaged")

    def progress(looks, _):
        for look in looks:
            bucket.history.remove(key)
            yield look

    assert rebuilt(bucket, progress=progress).written == [key]
    assert bucket.objects(HISTORY) == right


def test_what_is_written_again_and_again_stays_and_is_named(bucket, monkeypatch):
    (key,) = bucket.append(FIRST)
    bucket.put(key, b"of another")
    monkeypatch.setattr(HistoryStore, "swap", lambda *_: False)
    done = rebuilt(bucket)
    assert (done.written, done.removed) == ([], [])
    (problem,) = done.problems
    assert problem.startswith(f"{key} was written by others again and again")
    assert bucket.objects(HISTORY) == {key: b"of another"}


def test_another_error_of_a_write_is_no_sign_of_others(bucket):
    with pytest.raises(bucket.s3.exceptions.NoSuchBucket):
        HistoryStore(bucket.s3, "no-such-bucket").swap("history/x", b"", None)


def test_a_run_without_prices_of_its_own_costs_the_same_whenever_it_is_rebuilt(bucket, monkeypatch):
    """The committed Spot prices hold for a day, so it is the run's own time that counts."""
    spot = {
        name: SpotPrice(zones={"us-east-1a": 0.1}, changed_at=NOON)
        for name in ("g5.xlarge", "c5.2xlarge")
    }
    table = TABLE.model_copy(update={"spot": spot, "as_of": NOON.date()})
    monkeypatch.setattr(prices, "load_prices", lambda *_: table)
    run = two_targets(purchase_option="spot")
    store = RunStore(bucket.s3, BUCKET, run.run_id)
    bucket.collect(run)
    bucket.history.remove(store.prefix + PRICES)
    bucket.history.append(run, run_prices(store, REGION, run))
    found = bucket.history.read(["price_usd_per_hour"])["price_usd_per_hour"].to_pylist()
    assert found == [0.1] * 4
    done = rebuilt(bucket)  # years later, or today
    assert (done.written, done.unchanged, done.problems) == ([], 1, [])


def test_an_empty_bucket_gives_an_empty_history(bucket):
    done = rebuilt(bucket)
    assert (done.sources, done.written, done.removed) == (0, [], [])
