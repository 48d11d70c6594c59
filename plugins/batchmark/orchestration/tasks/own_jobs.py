"""The tasks specific to own_job_benchmark and job_comparison."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow.sdk import Context

from batchmark.aws.boto_clients import patient_clients
from batchmark.aws.result_bucket import RunStore
from batchmark.core.config import Config, Target
from batchmark.core.own_jobs import ComparisonRun
from batchmark.orchestration.settings import load_config, load_own_jobs
from batchmark.orchestration.tasks.approval import Arguments, approved_jobs
from batchmark.orchestration.tasks.budget import Proposal, prices_of
from batchmark.orchestration.telling import fail_if_refused, tell
from batchmark.runs.plans.options import parse_options

if TYPE_CHECKING:
    from batchmark.runs.own_jobs.sides import FoundSide


def check_own_job(context: Context) -> str:
    """Check the environment for the targets of a user's own job, using its job definitions."""
    from batchmark.orchestration.tasks import environment
    from batchmark.runs.plans.own_job_plan import chosen_job, own_targets, parse_own_job_run

    with fail_if_refused(context):
        config, own_jobs = load_config(), load_own_jobs()
        wanted = parse_own_job_run(own_jobs, context["params"])
        name = wanted.job or ""
        job = chosen_job(config, own_jobs, name)
        targets = own_targets(config, name, job, wanted.targets)
    defined = {
        target: config.targets[target].model_copy(
            update={"job_definition": job.job_definitions[target]}
        )
        for target in targets
    }
    return environment.check(context, config.with_targets(defined), targets, own_jobs=True)


def plan_own_job(context: Context) -> Arguments:
    """Plan a run of a user's own job, returning the same as `approved_jobs`."""
    from batchmark.runs.plans.own_job_plan import parse_own_job_run, plan_own_jobs
    from batchmark.runs.run_file_system import check_tags

    def propose(config: Config, run_name: str) -> Proposal:
        check_tags(context["run_id"])
        own_jobs = load_own_jobs()
        wanted = parse_own_job_run(own_jobs, context["params"])
        jobs = plan_own_jobs(config, own_jobs, wanted, run_name=run_name)
        return Proposal(config, jobs, schedule=own_jobs.jobs[wanted.job or ""].schedule)

    return approved_jobs(context, propose)


def check_sides(context: Context) -> str:
    """Check the environment for a comparison's queues and job definitions."""
    from batchmark.orchestration.tasks import environment

    with fail_if_refused(context):
        config = load_config()
        found = _found(context, config)
    for side in found.values():
        tell(*side.notes)
    joined = config.with_targets(_targets(found))
    return environment.check(context, joined, list(found), foreign=True)


def plan_comparison(context: Context) -> Arguments:
    """Plan a comparison, returning the same as `approved_jobs`; tell the leak guard its queues."""
    from batchmark.runs.own_jobs.known_queues import remember
    from batchmark.runs.plans.own_job_plan import plan_comparison as plan
    from batchmark.runs.run_file_system import check_tags

    def propose(config: Config, run_name: str) -> Proposal:
        check_tags(context["run_id"])
        found = _found(context, config)  # first: its errors show no value of a variable
        wanted = parse_options(ComparisonRun, context["params"])
        # Of all types, as only a collected job tells which one it ran on.
        prices = prices_of(config, {name for side in found.values() for name in side.types})
        found = {name: side.at_worst(prices.table) for name, side in found.items()}
        sides = _targets(found)
        config = config.with_targets(sides)
        jobs = plan(config, found, wanted, run_name=run_name)
        return Proposal(config, jobs, sides=sides, prices=prices)

    arguments = approved_jobs(context, propose)
    queues = {one["job_queue"] for one in arguments}
    remember(RunStore.of(load_config(), context["run_id"]), queues, datetime.now(UTC))
    return arguments


def _found(context: Context, config: Config) -> dict[str, FoundSide]:
    from batchmark.runs.own_jobs.discovery import discover
    from batchmark.runs.own_jobs.sides import parse_sides

    sides = parse_sides(context["params"]["sides"], config.targets)
    return discover(patient_clients(config.region), sides, config.comparison_definitions)


def _targets(found: dict[str, FoundSide]) -> dict[str, Target]:
    return {name: side.target for name, side in found.items()}
