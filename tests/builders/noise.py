"""Builders of jobs that differ, for the tests of noise, verdicts and calibrations."""

import pytest

from batchmark.analysis.pooling import group_jobs
from batchmark.analysis.samples import RowSamples
from tests.builders.runs import build_job, build_row, build_run

JOB = build_job("c5.2xlarge", [])
SAMPLES = 8
ROW = build_row((1.0,) * SAMPLES)


def quick_and_long(names, quick, long, *marks):
    """Parametrises a statistical test: the long version runs by `make test-statistics` alone.

    It alone has the given marks.
    """
    versions = [
        pytest.param(*quick, id="quick"),
        pytest.param(*long, id="long", marks=[pytest.mark.monte_carlo, *marks]),
    ]
    return pytest.mark.parametrize(names, versions)


def jobs_of(medians, *, target="c5.2xlarge", **fields):
    return [
        build_job(target, [build_row((median,) * SAMPLES)], repeat=n, **fields)
        for n, median in enumerate(medians, start=1)
    ]


def target_of(*jobs, lost=()):
    ((target,),) = group_jobs(build_run(*jobs, lost=lost)).values()
    return target


def samples_of(jobs_samples):
    """One row's samples by job, in seconds; not validated, as simulations need many."""
    rows = (ROW.model_copy(update={"samples_seconds": tuple(one)}) for one in jobs_samples)
    return RowSamples(measured=[(JOB, row) for row in rows])
