"""The history as pages read it: every file once, whatever was restarted or damaged meanwhile."""

import pytest

from batchmark.history import view
from batchmark.history.view import COLUMNS, SNAPSHOTS, SOURCE, HistoryView
from tests.builders.history import two_targets

SNAPSHOT = f"{SNAPSHOTS}suite=blog/2026-11.parquet"


@pytest.fixture(autouse=True)
def snapshot_each_time(monkeypatch):
    monkeypatch.setattr(view, "WORTH_A_SNAPSHOT", 1)


def read(bucket, history=None):
    """The run ids of a view's rows, and the files that it read for them."""
    bucket.calls.clear()
    rows = (history or HistoryView(bucket.history)).rows("blog")
    read = [key for operation, key in bucket.calls if operation == "GetObject"]
    return sorted(set(rows["run_id"].to_pylist())), [key for key in read if key != SNAPSHOT]


def run_ids(*runs):
    return sorted(run.run_id for run in runs)


def test_rows_are_those_of_the_history(bucket):
    bucket.append(two_targets())
    rows = HistoryView(bucket.history).rows("blog").drop_columns([SOURCE])
    assert rows.equals(bucket.history.read(COLUMNS, suites=["blog"]))


def test_a_suite_without_files_has_no_rows(bucket):
    assert HistoryView(bucket.history).rows("blog").num_rows == 0
    assert HistoryView(bucket.history).suites() == []


def test_no_file_is_read_twice(bucket):
    first, second = two_targets(), two_targets(1)
    history = HistoryView(bucket.history)
    bucket.append(first)
    assert read(bucket, history)[0] == run_ids(first)
    assert read(bucket, history) == (run_ids(first), [])
    added = bucket.append(second)
    assert read(bucket, history) == (run_ids(first, second), list(added))


def test_after_a_restart_only_what_is_newer_than_the_snapshot_is_read(bucket):
    runs = [two_targets(day) for day in range(3)]
    for run in runs[:2]:
        bucket.append(run)
    read(bucket)
    added = bucket.append(runs[2])
    assert read(bucket) == (run_ids(*runs), list(added))
    assert read(bucket) == (run_ids(*runs), [])


def test_few_new_files_write_no_snapshot(bucket, monkeypatch):
    monkeypatch.setattr(view, "WORTH_A_SNAPSHOT", 2)
    bucket.append(two_targets())
    read(bucket)
    assert list(bucket.objects(SNAPSHOTS)) == []


def test_a_replaced_or_removed_file_leaves_no_old_row(bucket):
    kept, cleared = two_targets(), two_targets(1)
    bucket.append(kept)
    bucket.append(cleared)
    history = HistoryView(bucket.history)
    read(bucket, history)
    (key,) = bucket.append(two_targets(1, slowdown=2.0))
    for one in (history, None):
        found, _ = read(bucket, one)
        assert found == run_ids(kept, cleared)
    expected = bucket.history.read(["median_seconds"], suites=["blog"])["median_seconds"]
    assert sorted(history.rows("blog")["median_seconds"].to_pylist()) == sorted(
        expected.to_pylist()
    )
    bucket.history.objects.remove(key)
    for one in (history, None):
        assert read(bucket, one)[0] == run_ids(kept)


@pytest.mark.parametrize("body", [b"", b"PAR1", b"x" * 100])
def test_a_damaged_snapshot_costs_no_row(bucket, body):
    run = two_targets()
    bucket.append(run)
    read(bucket)
    bucket.put(SNAPSHOT, body)
    assert read(bucket)[0] == run_ids(run)


def test_a_snapshot_of_other_columns_costs_no_row(bucket, monkeypatch):
    run = two_targets()
    bucket.append(run)
    monkeypatch.setattr(view, "COLUMNS", COLUMNS[:-1])
    read(bucket)
    monkeypatch.undo()
    assert read(bucket)[0] == run_ids(run)


def test_a_damaged_file_costs_itself_alone_and_is_read_once(bucket):
    run = two_targets()
    bucket.append(run)
    bucket.put("history/suite=blog/month=2026-11/damaged.parquet", b"PAR1")
    history = HistoryView(bucket.history)
    assert read(bucket, history)[0] == run_ids(run)
    assert read(bucket, history) == (run_ids(run), [])


def test_only_as_many_months_are_read_as_hold_the_runs_wanted(bucket):
    runs = [two_targets(day) for day in (0, 1, 40, 80)]
    for run in runs:
        bucket.append(run)
    history = HistoryView(bucket.history)
    bucket.calls.clear()
    assert set(history.rows("blog", least_runs=2)["run_id"].to_pylist()) == {
        run.run_id for run in runs[2:]
    }
    assert not [key for operation, key in bucket.calls if operation == "GetObject" and "11" in key]
    assert len(set(history.rows("blog")["run_id"].to_pylist())) == 4


def test_the_same_files_are_the_same_table(bucket):
    bucket.append(two_targets())
    history = HistoryView(bucket.history)
    rows = history.rows("blog")
    assert history.rows("blog") is rows
    bucket.append(two_targets(1))
    assert history.rows("blog") is not rows
