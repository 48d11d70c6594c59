"""A rebuild from raw documents and imported files gives the history as it was written."""

import math
from datetime import UTC, datetime, timedelta

import pytest
from botocore.exceptions import ClientError

from batchmark.aws.result_bucket import COLLECTED, PRICES, Bucket, RunStore
from batchmark.core import prices
from batchmark.core.names import slug
from batchmark.core.prices import SpotPrice
from batchmark.history import rebuild as rebuilding
from batchmark.history import store as storing
from batchmark.history.rebuild import rebuild
from batchmark.history.rows import history_rows
from batchmark.history.store import run_prices
from tests.builders.history import BUCKET, NOON, REGION, finished, run_of, two_targets
from tests.builders.imported_files import GITHUB, PYTEST, imported
from tests.builders.runs import PRICES as TABLE
from tests.builders.runs import as_older_releases_stored, build_job, build_row, noisy, with_digests
from tests.stand_ins.batch import client_error

HISTORY, HOUR = "history/", timedelta(hours=1)
FIRST, SECOND = two_targets(), two_targets(1)
FIRST_FOLDER = f"runs/{slug(FIRST.run_id)}/"
FIRST_COLLECTED = FIRST_FOLDER + COLLECTED
GPU_DOCUMENT = FIRST.jobs[0].document_uri.removeprefix(f"s3://{BUCKET}/")


def rebuilt(bucket, **options):
    return rebuild(bucket.s3, BUCKET, REGION, **options)


def targets(bucket, **chosen):
    return set(bucket.history.read(["target"], **chosen)["target"].to_pylist())


@pytest.fixture
def filled(bucket):
    """Two runs, one of them across a month's end, and two imported files."""
    bucket.append(FIRST)
    month_end = datetime(2026, 11, 30, 22, 30, tzinfo=UTC)
    jobs = [
        finished(build_job("c5.2xlarge", [build_row(noisy(n))], repeat=n), month_end + n * HOUR)
        for n in (1, 2)
    ]
    bucket.append(run_of(*jobs, run_id="manual__2026-11-30T23:00:00+00:00"))
    for path in (PYTEST, GITHUB):
        bucket.history.append_import(imported(path))
    return bucket


def test_a_lost_history_is_rebuilt_byte_for_byte_and_a_correct_one_is_not_written_again(filled):
    before = filled.objects()
    for key in filled.objects(HISTORY):
        filled.history.objects.remove(key)
    done = rebuilt(filled)
    assert filled.objects() == before
    assert (done.sources, sorted(done.written)) == (4, sorted(filled.objects(HISTORY)))
    assert (done.unchanged, done.removed, done.uncounted, done.problems) == (0, [], [], [])
    filled.calls.clear()
    done = rebuilt(filled)
    assert (done.written, done.removed) == ([], [])
    assert done.unchanged == len(filled.objects(HISTORY)) == 6
    assert filled.called("PutObject") == filled.called("DeleteObject") == []


def test_differing_files_are_written_before_obsolete_ones_are_removed(filled):
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


def test_the_raw_document_counts_rather_than_its_copy(bucket):
    bucket.append(FIRST)
    right = bucket.objects(HISTORY)
    job = FIRST.jobs[0]
    bent = job.model_copy(update={"document": job.document.model_copy(update={"measurements": ()})})
    changed = FIRST.model_copy(update={"jobs": (bent, FIRST.jobs[1])})
    bucket.put(FIRST_COLLECTED, as_older_releases_stored(changed))
    assert rebuilt(bucket).problems == []
    assert bucket.objects(HISTORY) == right


GOOD = FIRST.jobs[0].document.to_json()
SPOILT = {
    "lost": None,
    "cut": '{"schema_version": 2, "run_id',
    "deep": "[" * 5000 + "]" * 5000,
    "overflowing": GOOD.replace('"flops": 2000000000', f'"flops": {2**63}'),
    "far": GOOD.replace('"finished_at": "2026', '"finished_at": "9999'),
}


@pytest.fixture(params=SPOILT)
def spoilt(bucket, request):
    """The bucket with FIRST, whose GPU's document was spoilt after its rows were there."""
    text = SPOILT[request.param]
    assert text != GOOD
    bucket.append(FIRST)
    bucket.history.objects.remove(GPU_DOCUMENT)
    if text:
        bucket.put(GPU_DOCUMENT, text)
    return bucket


def test_for_a_lost_raw_document_the_copy_of_an_older_release_counts(spoilt):
    spoilt.put(FIRST_COLLECTED, as_older_releases_stored(FIRST))
    right = spoilt.objects(HISTORY)
    (key,) = right
    for damage in (None, b"damaged"):
        spoilt.history.objects.remove(key)
        if damage:
            spoilt.put(key, damage)
        (problem,) = rebuilt(spoilt).problems
        assert GPU_DOCUMENT in problem
        assert f"its copy in {FIRST_COLLECTED}" in problem
        assert spoilt.objects(HISTORY) == right


def test_without_a_copy_its_rows_stay_and_if_lost_the_others_are_rebuilt(spoilt):
    spoilt.append(SECOND)
    right = spoilt.objects(HISTORY)
    done = rebuilt(spoilt)
    (problem,) = done.problems
    assert GPU_DOCUMENT in problem
    assert problem.endswith(f"run {FIRST.run_id} keeps its existing rows")
    assert (done.written, done.removed) == ([], [])
    assert spoilt.objects(HISTORY) == right
    key, _ = right
    spoilt.history.objects.remove(key)
    assert rebuilt(spoilt).written == [key]
    assert targets(spoilt, run_ids=[FIRST.run_id]) == {"c5.2xlarge"}


def test_a_replaced_document_is_refused_by_name_and_costs_itself_alone(bucket):
    """It is valid and of the same job; and no rows of it are there that could stay."""
    (key,) = bucket.append(with_digests(FIRST))
    assert (rebuilt(bucket).unchecked, rebuilt(bucket).problems) == (0, [])
    bucket.append(SECOND)  # as an older release collected it
    assert (rebuilt(bucket).unchecked, rebuilt(bucket).problems) == (2, [])
    job = FIRST.jobs[0]
    faster = job.document.model_copy(update={"measurements": job.document.measurements[:1]})
    bucket.put(GPU_DOCUMENT, faster.to_json())
    right = bucket.objects(HISTORY)
    (problem,) = rebuilt(bucket).problems
    assert f"{GPU_DOCUMENT} was replaced: its SHA-256 is " in problem
    assert problem.endswith(f"run {FIRST.run_id} keeps its existing rows")
    assert bucket.objects(HISTORY) == right
    bucket.history.objects.remove(key)
    assert rebuilt(bucket).written == [key]
    assert targets(bucket, run_ids=[FIRST.run_id]) == {"c5.2xlarge"}


@pytest.fixture
def both(bucket):
    """The keys of FIRST and SECOND, whose files are damaged, and what was in them."""
    keys = [key for run in (FIRST, SECOND) for key in bucket.append(run)]
    right = bucket.objects(HISTORY)
    for key in keys:
        bucket.put(key, b"damaged")
    return *keys, right


@pytest.mark.parametrize("name", [COLLECTED, PRICES])
def test_rows_of_a_run_that_cannot_be_read_stay(bucket, both, name):
    first, second, right = both
    bucket.put(FIRST_FOLDER + name, '{"of": "another release"}')
    (problem,) = rebuilt(bucket).problems
    assert problem.startswith(f"{FIRST_FOLDER} is from another release (")
    assert bucket.objects(HISTORY) == {first: b"damaged", second: right[second]}


@pytest.mark.parametrize("raised", [RecursionError, LookupError, MemoryError])
def test_a_run_that_fails_in_an_unknown_way_costs_no_other(bucket, both, monkeypatch, raised):
    def read_prices(store, region, run):
        if run.run_id == FIRST.run_id:
            raise raised("of a kind\nthat nobody knows")
        return run_prices(store, region, run)

    monkeypatch.setattr(rebuilding, "run_prices", read_prices)
    first, second, right = both
    assert rebuilt(bucket).problems == [
        f"{slug(FIRST.run_id)} can't be rebuilt (unexpected "
        f"{raised.__name__}: {raised('of a kind that nobody knows')}), so its rows are kept"
    ]
    assert bucket.objects(HISTORY) == {first: b"damaged", second: right[second]}


def test_an_s3_that_does_not_answer_ends_a_rebuild(bucket):
    bucket.append(FIRST)

    def refuse(operation, key):
        if key == FIRST_COLLECTED:
            raise client_error("SlowDown", 503)

    bucket.s3.on_call = refuse
    with pytest.raises(ClientError, match="SlowDown"):
        rebuilt(bucket)


@pytest.mark.parametrize(
    ("odd", "error"),
    [({"flops": 2**63}, "OverflowError"), ({"relative_spread": math.inf}, "ArrowInvalid")],
)
def test_rows_that_do_not_fit_the_history_cost_their_job(bucket, monkeypatch, caplog, odd, error):
    def rows(run, prices):
        found = history_rows(run, prices)
        return [row | odd if row["target"] == "g5.xlarge" else row for row in found]

    monkeypatch.setattr("batchmark.history.store.history_rows", rows)
    bucket.append(FIRST)
    assert targets(bucket) == {"c5.2xlarge"}
    lost = FIRST.jobs[0].document_uri
    assert f"Missing from the history: {lost} has no usable rows: unexpected {error}" in caplog.text
    before = bucket.objects(HISTORY)
    done = rebuilt(bucket)
    assert lost in done.problems[0]
    assert (done.written, done.removed, bucket.objects(HISTORY)) == ([], [], before)


def test_a_run_of_too_many_rows_loses_what_does_not_fit(bucket, monkeypatch, caplog):
    monkeypatch.setattr("batchmark.history.store.MOST_ROWS", 3)
    bucket.append(FIRST)
    assert targets(bucket) == {"g5.xlarge"}
    assert "its run has more than 3 rows" in caplog.text


def test_a_history_file_of_any_size_is_replaced(bucket, monkeypatch):
    (key,) = bucket.append(FIRST)
    right = bucket.objects(HISTORY)
    monkeypatch.setattr(storing, "MOST_BYTES", len(right[key]))
    bucket.put(key, bytes(len(right[key]) + 1))
    assert rebuilt(bucket).written == [key]
    assert bucket.objects(HISTORY) == right


def test_rows_of_an_import_that_cannot_be_read_stay(filled):
    right = filled.objects(HISTORY)
    filled.put(imported(PYTEST).key, '{"format": "of another release"}')
    broken = imported(GITHUB).model_copy(update={"text": "[" * 100_000})
    filled.put(imported(GITHUB).key, broken.model_dump_json())
    problems = rebuilt(filled).problems
    assert ["can't be imported again" in problem for problem in problems] == [True, True]
    assert filled.objects(HISTORY) == right


def test_documents_of_no_collected_run_are_named_and_left_out(bucket):
    bucket.append(FIRST)
    by_hand = FIRST.jobs[0].document.model_copy(update={"run_id": "manual"}).to_json()
    superseded = f"{GPU_DOCUMENT.rpartition('/')[0]}/other.json"
    uncounted = ["raw/manual/local.json", "raw/not-collected-yet/g5/blog/1/j.1.json"]
    for key in (*uncounted, superseded):
        bucket.put(key, by_hand)
    right = bucket.objects(HISTORY)
    assert rebuilt(bucket).uncounted == uncounted
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
def test_files_that_a_run_appends_after_its_folder_was_read_stay(bucket, monkeypatch, left, moment):
    (key,) = bucket.append(FIRST)
    bucket.history.objects.remove(key)
    if left:
        bucket.put(key, left)
    changed = iter([two_targets(slowdown=2.0)])  # once

    def rows(*arguments):
        for run in changed:
            bucket.append(run)
        return history_rows(*arguments)

    def progress(looks, _):
        for look in looks:
            for run in changed:
                bucket.append(run)
            yield look

    if moment == "amid its look":
        monkeypatch.setattr("batchmark.history.store.history_rows", rows)
        done = rebuilt(bucket)
    else:
        done = rebuilt(bucket, progress=progress)
    assert (done.written, done.unchanged, done.removed, done.problems) == ([], 1, [], [])
    medians = bucket.history.read(["median_seconds"])["median_seconds"].to_pylist()
    assert sorted(medians) == pytest.approx([0.002, 0.002, 0.04, 0.04], rel=0.05)


def test_a_file_removed_or_changed_meanwhile_is_written_again_if_it_can_be(bucket, monkeypatch):
    (key,) = bucket.append(FIRST)
    right = bucket.objects(HISTORY)
    bucket.put(key, b"damaged")

    def progress(looks, _):
        for look in looks:
            bucket.history.objects.remove(key)
            yield look

    assert rebuilt(bucket, progress=progress).written == [key]
    assert bucket.objects(HISTORY) == right
    bucket.put(key, b"of another")
    monkeypatch.setattr(Bucket, "swap", lambda *_: False)
    (problem,) = rebuilt(bucket).problems
    assert problem.startswith(f"{key} keeps being changed by another program")
    assert bucket.objects(HISTORY) == {key: b"of another"}


def test_a_run_without_its_own_prices_costs_the_same_in_every_rebuild(bucket, monkeypatch):
    """The committed Spot prices are valid for a day, so the run's own time counts."""
    spot = {
        name: SpotPrice(zones={"us-east-1a": 0.1}, changed_at=NOON)
        for name in ("g5.xlarge", "c5.2xlarge")
    }
    table = TABLE.model_copy(update={"spot": spot, "as_of": NOON.date()})
    monkeypatch.setattr(prices, "load_prices", lambda *_: table)
    run = two_targets(purchase_option="spot")
    store = RunStore(bucket.s3, BUCKET, run.run_id)
    bucket.collect(run)
    bucket.history.objects.remove(store.prefix + PRICES)
    bucket.history.append(run, run_prices(store, REGION, run), store.name)
    found = bucket.history.read(["price_usd_per_hour"])["price_usd_per_hour"].to_pylist()
    assert found == [0.1] * 4
    done = rebuilt(bucket)  # years later, or today
    assert (done.written, done.unchanged, done.problems) == ([], 1, [])
