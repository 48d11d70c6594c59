"""The tasks of the DAG `distributed_training_benchmark` beside those that all benchmarks have."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context

from batchmark.aws.result_bucket import RunStore
from batchmark.core.errors import BatchmarkError
from batchmark.orchestration.scaling_form import wanted
from batchmark.orchestration.settings import load_config, load_multi_node
from batchmark.orchestration.telling import fail, tell
from batchmark.runs.plans.planning import all_operator_kwargs


def check_environment(context: Context) -> str:
    """As environment.check_environment, of the multi-node stack for the most nodes of the run."""
    from batchmark.orchestration.tasks import environment

    try:
        nodes = load_multi_node()
        config = nodes.joined_to(load_config())
    except BatchmarkError as error:
        fail(context, str(error), error)  # it would fail again
    most = max(context["params"]["node_counts"], default=1)
    return environment.check(context, config, [nodes.target], nodes=most)


def plan_jobs(context: Context) -> list[dict[str, Any]]:
    """Check a run's parameters and worst-case cost; return the operator's arguments for each job.

    A dry run returns none, so that its jobs are skipped.
    """
    from batchmark.orchestration.tasks.alerts import check_settings
    from batchmark.orchestration.tasks.budget import approve
    from batchmark.runs.plans.scaling_plan import left_out, needs_files, plan_scaling
    from batchmark.runs.run_file_system import check_tags

    run_id = context["run_id"]
    try:
        nodes = load_multi_node()
        config = nodes.joined_to(load_config())
        check_settings()
        asked = wanted(context["params"])
        jobs = plan_scaling(nodes, config, asked, run_name=RunStore.of(config, run_id).name)
        tell(*left_out(asked, jobs))
        with_files = needs_files(jobs)
        if with_files:
            check_tags(run_id)
        approved = approve(context, config, jobs, nodes if with_files else None)
    except BatchmarkError as error:
        fail(context, str(error), error)  # it would fail again
    if approved.dry_run:
        return []
    return all_operator_kwargs(config, run_id, jobs)
