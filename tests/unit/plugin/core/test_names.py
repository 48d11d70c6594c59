import re

import pytest

from batchmark.core.names import full_name, slug, url_safe

ALIKE = ["r+1", "r:1", "r 1", "+r+1", "r+1+", "r++1", "r-1"]
SCHEDULED = "scheduled__2026-11-16T03:00:00+00:00"
LONGEST = "manual__" + 242 * "+"  # Airflow's ids have at most 250 characters


@pytest.mark.parametrize(
    "run_id", [*ALIKE, SCHEDULED, "a b/c?d", "ünï", "+", f"{'a' * 248}+x", LONGEST]
)
def test_slugs_need_no_escaping_in_a_url_nor_in_a_tag(run_id):
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,256}", slug(run_id))
    assert slug(slug(run_id)) == slug(run_id)


def test_different_run_ids_have_different_slugs():
    ids = [*ALIKE, SCHEDULED, SCHEDULED.replace("+", "-"), LONGEST, LONGEST[:-1], "+", "++"]
    ids += [f"{'a' * 248}+{end}" for end in "xy"]
    assert len({slug(run_id) for run_id in ids}) == len(ids)


@pytest.mark.parametrize("run_id", ["run-014", "manual_1.2", "", "a" * 250])
def test_a_run_id_that_needs_no_escaping_is_its_own_slug(run_id):
    assert slug(run_id) == url_safe(run_id) == run_id


def test_a_slug_begins_with_what_people_read():
    assert slug(SCHEDULED).startswith("scheduled__2026-11-16T03-00-00-00-00-")


def test_a_tasks_names_fit_into_a_job_name():
    assert len(full_name(300 * "x", LONGEST, 10**8)) <= 128
