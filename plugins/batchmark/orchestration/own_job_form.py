"""The fields of the forms of own_job_benchmark and job_comparison."""

from __future__ import annotations

import os

from airflow.sdk import Param

from batchmark.core.own_jobs import ComparisonRun, OwnJobRun
from batchmark.orchestration import dag_parts, option_form

# Asking AWS here would hold up whoever parses DAGs.
OWN_JOBS_VARIABLE = "BATCHMARK_OWN_JOBS"
MAX_COST_USD = 50


def own_job_params() -> dict[str, Param]:
    """Return the fields of a run of one of Terraform's own jobs."""
    known = [name for name in os.environ.get(OWN_JOBS_VARIABLE, "").split(",") if name]
    choice = {"default": known[0], "examples": known} if known else {}
    targets = dag_parts.targets_param("none means all that the job is defined for")
    return option_form.params(OwnJobRun, job=choice) | {"targets": targets} | _of_any_run()


def comparison_params() -> dict[str, Param]:
    """Return the fields of a comparison of jobs that run already."""
    return option_form.params(ComparisonRun) | _of_any_run()


def _of_any_run() -> dict[str, Param]:
    return {**dag_parts.cost_params(MAX_COST_USD), "reruns": dag_parts.reruns_param()}
