"""Builders of jobs that differ, for the tests of noise, verdicts and calibrations."""

from __future__ import annotations

from batchmark.pooling import group_jobs
from batchmark.series import Series
from tests.unit.run_builders import build_job, build_row, build_run

JOB = build_job("c5.2xlarge", [])
SAMPLES = 8


def jobs_of(medians, *, target="c5.2xlarge", **fields):
    return [
        build_job(target, [build_row((median,) * SAMPLES)], repeat=n, **fields)
        for n, median in enumerate(medians, start=1)
    ]


def target_of(*jobs, lost=()):
    ((target,),) = group_jobs(build_run(*jobs, lost=lost)).values()
    return target


def series_of(jobs_samples, seed="series"):
    return Series(seed, measured=[(JOB, build_row(samples)) for samples in jobs_samples])
