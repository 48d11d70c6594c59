"""Airflow's side may not import the job's suites, so a test holds the two lists together."""

from batchmark import suites as known_to_airflow
from batchmark_job.suites import SUITES
from batchmark_job.workloads.base import TOLERANCES


def test_the_trigger_form_offers_what_the_job_knows():
    assert list(known_to_airflow.SUITES) == list(SUITES)
    assert set(known_to_airflow.DTYPES) == set(TOLERANCES)
