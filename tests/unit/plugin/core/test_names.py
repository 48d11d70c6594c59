"""Names of runs, rows and targets, and versions in words."""

import re
from datetime import UTC, datetime

import pytest

from batchmark.core.names import (
    cut_to_length,
    row_order,
    run_name,
    slug,
    target_order,
    told_apart,
    url_safe,
)
from batchmark.core.own_jobs import scheduled_run_id
from batchmark.core.version import Version, shortened, since
from batchmark_job.result.options import schemas
from batchmark_job.result.version import GivenVersion

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


def test_only_a_text_that_is_too_long_is_cut_and_stays_distinct():
    assert cut_to_length(20 * "a", 20) == 20 * "a"
    cut = {cut_to_length(20 * "a" + end, 20) for end in "xy"}
    assert [len(text) for text in cut] == [20, 20]


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


OLD, NEW = "8ab0c11" + "0" * 33, "3f2a91c" + "0" * 33
DIGEST = "sha256:" + "ab12" * 16
OTHER_IMAGE = "since image sha256:ab12ab12ab12 (image sha256:0"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({"commit": OLD, "label": "a"}, {"commit": NEW, "label": "b"}, "since 3f2a91c (8ab0c11"),
        ({"commit": OLD, "label": "1.0"}, {"commit": OLD, "label": "1.1"}, "since 1.1 (1.0"),
        ({"label": "1.0"}, {"commit": NEW, "label": "1.1"}, "since 1.1 (1.0"),
        ({"image_digest": "sha256:0"}, {"image_digest": DIGEST}, OTHER_IMAGE),
        # They agree, or one of them is not known.
        ({}, {}, None),
        ({}, {"commit": NEW}, None),
        ({"commit": OLD}, {}, None),
        ({"commit": NEW, "branch": "main"}, {"commit": NEW, "branch": "work"}, None),
    ],
)
def test_the_first_difference_that_both_sides_know_tells_the_version(before, after, words):
    told = since(Version(**before), Version(**after))
    assert told == (f"{words} before)" if words else "")


def test_a_form_asks_for_what_people_know_alone():
    asked = [name for name, schema in schemas(Version).items() if "command" in schema]
    assert asked == ["commit", "branch", "label"]


def test_what_jobs_disagree_in_is_no_version_and_what_a_person_gives_goes_before_the_plan():
    values = {"commit": [OLD, NEW, None], "label": ["a", None, "a"], "target": ["g5.xlarge"]}
    assert Version.agreed(values) == Version(label="a")
    hostile = Version.agreed({"label": ["a\nb" + "x" * 999]})
    assert hostile.label.startswith("a\u240ab")
    assert GivenVersion(commit=" ", branch="", label=None) == GivenVersion()
    planned = Version(commit=OLD, label="nightly")
    assert Version(commit=NEW).over(planned) == Version(commit=NEW, label="nightly")
    assert Version(commit=NEW).over(None) == Version(commit=NEW)


def test_a_version_in_words_with_long_texts_shortened():
    version = Version(commit=NEW, branch="main", label="1.1", image_digest=DIGEST)
    assert str(version) == "commit 3f2a91c, branch main, label 1.1, image sha256:ab12ab12ab12"
    assert str(Version()) == ""
    assert shortened("commit", "20261128") == shortened("label", "20261128") == "20261128"
    assert shortened("label", OLD) == OLD
    assert len(shortened("branch", "x" * 300)) == 40
