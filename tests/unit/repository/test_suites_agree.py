"""Airflow's side may not import the job's suites, so a test holds the two lists together."""

import pytest

from batchmark.core import intervals
from batchmark.core import suites as known_to_airflow
from batchmark.core.names import document_prefix
from batchmark_job.measuring.limits import RowLimits
from batchmark_job.output import document_name
from batchmark_job.result.scaling_options import LEAST_STEPS
from batchmark_job.result.sharing import Disturbance, SharingMode
from batchmark_job.result.sharing_options import SAYS_OF_DISTURBANCES, SAYS_OF_MODES
from batchmark_job.suites import CUSTOM, NAMES, SUITES
from batchmark_job.workloads.base import TOLERANCES
from batchmark_job.workloads.builtin import WORKLOADS


def test_the_trigger_form_offers_what_the_job_knows_and_what_may_share_a_device():
    """Its axes are checked before a run costs anything; the job checks them again."""
    assert list(known_to_airflow.SUITES) == list(NAMES)
    assert set(known_to_airflow.DTYPES) == set(TOLERANCES)
    assert known_to_airflow.CUSTOM == CUSTOM
    axes = {
        name: {
            axis.name: (axis.minimum, axis.maximum, axis.default is not None)
            for axis in workload.axes
        }
        for name, workload in WORKLOADS.items()
    }
    assert {name: dict(known) for name, known in known_to_airflow.TASKS.items()} == axes, (
        "TASKS of plugins/batchmark/core/suites.py has each workload of the job, with its axes"
    )
    assert set(SAYS_OF_MODES) == set(SharingMode)
    assert set(SAYS_OF_DISTURBANCES) == set(Disturbance)


@pytest.mark.parametrize("job_id", ["0f1e-2d3c", "0f1e-2d3c:12", "0f1e-2d3c#0"])
def test_airflow_looks_for_a_document_under_the_name_that_the_job_gives_it(job_id):
    assert document_name(job_id, 2) == f"{document_prefix(job_id)}2.json"


def test_every_measured_row_and_the_fewest_steps_can_have_an_interval():
    assert RowLimits().minimum_samples >= intervals.MINIMUM_SAMPLES
    assert all(s.limits.minimum_samples >= intervals.MINIMUM_SAMPLES for s in SUITES.values())
    assert SUITES[known_to_airflow.SCALING].limits.minimum_samples == LEAST_STEPS
