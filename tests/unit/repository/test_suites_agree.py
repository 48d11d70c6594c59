"""Airflow's side may not import the job's suites, so a test holds the two lists together."""

from batchmark.core import intervals
from batchmark.core import suites as known_to_airflow
from batchmark_job.measuring.limits import RowLimits
from batchmark_job.suites import CUSTOM, NAMES, SUITES
from batchmark_job.workloads.base import TOLERANCES


def test_the_trigger_form_offers_what_the_job_knows():
    assert list(known_to_airflow.SUITES) == list(NAMES)
    assert set(known_to_airflow.DTYPES) == set(TOLERANCES)
    assert known_to_airflow.CUSTOM == CUSTOM


def test_every_measured_row_can_have_an_interval():
    assert RowLimits().minimum_samples >= intervals.MINIMUM_SAMPLES
    assert all(s.limits.minimum_samples >= intervals.MINIMUM_SAMPLES for s in SUITES.values())
