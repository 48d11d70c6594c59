"""Turns a trigger form into operator arguments for an approved run of any kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from airflow.sdk import Context

from batchmark.aws.result_bucket import RunStore
from batchmark.core.config import Config
from batchmark.core.run import PlannedJob
from batchmark.orchestration.settings import load_config
from batchmark.orchestration.tasks.budget import Proposal, approve
from batchmark.orchestration.telling import fail_if_refused
from batchmark.runs.plans.options import parse_options
from batchmark.runs.plans.planning import all_operator_kwargs
from batchmark_job.result.version import GivenVersion

Arguments = list[dict[str, Any]]


def approved_jobs(
    context: Context,
    propose: Callable[[Config, str], Proposal],
    arguments: Callable[[Config, str, Sequence[PlannedJob]], Arguments] = all_operator_kwargs,
) -> Arguments:
    """Check a run's parameters and worst-case cost; return the operator arguments for each job.

    For a dry run, the list is empty, so that no job runs.

    Args:
        propose: plans the jobs, given the configuration and the name of the run's folder.
        arguments: builds the operator arguments, given the configuration, the run id and the jobs.
    """
    from batchmark.orchestration.tasks.alerts import check_settings

    run_id = context["run_id"]
    with fail_if_refused(context):
        config = load_config()
        check_settings()
        given = parse_options(GivenVersion, context["params"])
        proposal = propose(config, RunStore.of(config, run_id).name)
        proposal = proposal._replace(jobs=[_with(given, job) for job in proposal.jobs])
        plan = approve(context, proposal)
    return [] if plan.dry_run else arguments(proposal.config, run_id, proposal.jobs)


def _with(given: GivenVersion, job: PlannedJob) -> PlannedJob:
    """Return the job with any version from the form applied to it."""
    version = given.over(job.version)
    return job.model_copy(update={"version": None if version == GivenVersion() else version})
