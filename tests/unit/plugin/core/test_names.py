import re
from datetime import UTC, datetime

import pytest

from batchmark.core.names import row_order, run_name, slug, target_order, told_apart, url_safe
from batchmark.core.own_jobs import scheduled_run_id

ALIKE = ["r+1", "r:1", "r 1", "+r+1", "r+1+", "r++1", "r-1"]
SCHEDULED = "scheduled__2026-11-16T03:00:00+00:00"
LONGEST = "manual__" + 242 * "+"  # Airflow's ids have at most 250 characters


@pytest.mark.parametrize(
    "run_id", [*ALIKE, SCHEDULED, "a b/c?d", "ünï", "+", f"{'a' * 248}+x", LONGEST]
)
def test_slugs_need_no_escaping_in_a_url_nor_in_a_tag(run_id):
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,256}", slug(run_id))
    assert slug(slug(run_id)) == slug(run_id)


def test_different_run_ids_have_different_slugs_that_begin_with_what_people_read():
    assert slug(SCHEDULED).startswith("scheduled__2026-11-16T03-00-00-00-00-")
    ids = [*ALIKE, SCHEDULED, SCHEDULED.replace("+", "-"), LONGEST, LONGEST[:-1], "+", "++"]
    ids += [f"{'a' * 248}+{end}" for end in "xy"]
    assert len({slug(run_id) for run_id in ids}) == len(ids)


@pytest.mark.parametrize("run_id", ["run-014", "manual_1.2", "", "a" * 250])
def test_a_run_id_that_needs_no_escaping_is_its_own_slug(run_id):
    assert slug(run_id) == url_safe(run_id) == run_id


def test_targets_and_rows_have_one_order_in_which_what_is_larger_comes_later():
    names = ["c5.xlarge", "c5.2xlarge", "c5.12xlarge", "c5d.xlarge", "g4dn.xlarge", "g5.2xlarge"]
    assert sorted({*names}, key=target_order) == names
    assert sorted(["today", "", "2", "10"], key=target_order) == ["", "2", "10", "today"]
    # Rows are in the order of their sizes, not of their texts.
    sizes = ["1e-05", "0.25", "0.5", "64", "256", "1024"]
    rows = [f"convert mb {size}, start warm" for size in sizes]
    assert sorted(sorted(rows), key=row_order) == rows
    assert len(sorted(["9" * 9999, "", "1e999"], key=row_order)) == 3, "of any text"


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ("c5.2xlarge in repo/new", "c5.2xlarge in old", ("repo/new", "old")),
        ("a in suite blog, 2026", "b in suite blog, 2026", ("a", "b")),
        ("a in blog, 2026, scheduled", "a in blog, 2025, scheduled", ("2026", "2025")),
        ("a, a, b", "a, b", ("a, b", "b")),
        ("new", "new", ("new", "new")),
    ],
)
def test_two_names_are_told_apart_by_the_parts_that_differ(first, second, told):
    assert told_apart(first, second) == told


def test_a_run_by_an_own_jobs_schedule_is_said_to_be_scheduled():
    run_id = scheduled_run_id("convert", datetime(2026, 11, 28, 3, tzinfo=UTC))
    assert run_name(run_id, "03:00", "job convert") == "job convert, 03:00, scheduled"
