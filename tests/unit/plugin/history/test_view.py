"""The history as pages read it: every file once, whatever was restarted or damaged meanwhile."""

import pytest

from batchmark.history import view
from batchmark.history.view import COLUMNS, SNAPSHOTS, SOURCE, HistoryView
from tests.builders.history import two_targets

SNAPSHOT = f"{SNAPSHOTS}suite=blog/2026-11.parquet"


@pytest.fixture(autouse=True)
def snapshot_each_time(monkeypatch):
    monkeypatch.setattr(view, "WORTH_A_SNAPSHOT", 1)


@pytest.fixture
def run(bucket):
    """The first run, which is in the history."""
    made = two_targets()
    bucket.append(made)
    return made


def read(bucket, history=None):
    """The run ids of a view's rows, and the files that it read for them."""
    bucket.calls.clear()
    rows = (history or HistoryView(bucket.history)).rows("blog")
    read = [key for operation, key in bucket.calls if operation == "GetObject"]
    return sorted(set(rows["run_id"].to_pylist())), [key for key in read if key != SNAPSHOT]


def run_ids(*runs):
    return sorted(run.run_id for run in runs)


def test_no_file_is_read_twice_not_even_a_damaged_one_which_costs_itself_alone(bucket, run):
    bucket.put("history/suite=blog/month=2026-11/damaged.parquet", b"PAR1")
    history = HistoryView(bucket.history)
    assert read(bucket, history)[0] == run_ids(run)
    assert read(bucket, history) == (run_ids(run), [])
    rows = history.rows("blog")
    assert history.rows("blog") is rows
    added = bucket.append(two_targets(1))
    assert read(bucket, history) == (run_ids(run, two_targets(1)), list(added))
    assert history.rows("blog") is not rows


def test_after_a_restart_only_what_is_newer_than_the_snapshot_is_read(bucket):
    runs = [two_targets(day) for day in range(3)]
    for run in runs[:2]:
        bucket.append(run)
    read(bucket)
    added = bucket.append(runs[2])
    assert read(bucket) == (run_ids(*runs), list(added))
    assert read(bucket) == (run_ids(*runs), [])


def test_rows_are_those_of_the_history_and_few_files_write_no_snapshot(bucket, run, monkeypatch):
    monkeypatch.setattr(view, "WORTH_A_SNAPSHOT", 2)
    read(bucket)
    assert list(bucket.objects(SNAPSHOTS)) == []
    history = HistoryView(bucket.history)
    rows = history.rows("blog").drop_columns([SOURCE])
    assert rows.equals(bucket.history.read(COLUMNS, suites=["blog"]))
    assert (history.suites(), history.rows("smoke").num_rows) == (["blog"], 0)


def test_a_replaced_or_removed_file_leaves_no_old_row(bucket, run):
    bucket.append(two_targets(1))
    history = HistoryView(bucket.history)
    read(bucket, history)
    (key,) = bucket.append(two_targets(1, slowdown=2.0))
    for one in (history, None):
        assert read(bucket, one)[0] == run_ids(run, two_targets(1))
    found, expected = (
        sorted(rows["median_seconds"].to_pylist())
        for rows in (history.rows("blog"), bucket.history.read(["median_seconds"], suites=["blog"]))
    )
    assert found == expected
    bucket.history.objects.remove(key)
    for one in (history, None):
        assert read(bucket, one)[0] == run_ids(run)


def test_a_snapshot_that_is_damaged_or_has_other_columns_costs_no_row(bucket, run, monkeypatch):
    with monkeypatch.context() as earlier:
        earlier.setattr(view, "COLUMNS", COLUMNS[:-1])
        read(bucket)
    assert read(bucket)[0] == run_ids(run)
    for body in (b"", b"PAR1", b"x" * 100):
        bucket.put(SNAPSHOT, body)
        assert read(bucket)[0] == run_ids(run)


def test_only_as_many_months_are_read_as_hold_the_runs_wanted(bucket):
    runs = [two_targets(day) for day in (0, 1, 40, 80)]
    for run in runs:
        bucket.append(run)
    history = HistoryView(bucket.history)
    bucket.calls.clear()
    found = history.rows("blog", least_runs=2)["run_id"].to_pylist()
    assert sorted(set(found)) == run_ids(*runs[2:])
    assert not [key for operation, key in bucket.calls if operation == "GetObject" and "11" in key]
    assert len(set(history.rows("blog")["run_id"].to_pylist())) == 4
