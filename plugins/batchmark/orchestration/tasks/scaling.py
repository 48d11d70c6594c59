"""The tasks specific to the DAG `distributed_training_benchmark`."""

from __future__ import annotations

from airflow.sdk import Context

from batchmark.core.config import Config
from batchmark.orchestration.settings import load_config, load_multi_node
from batchmark.orchestration.tasks.approval import Arguments, approved_jobs
from batchmark.orchestration.tasks.budget import Proposal
from batchmark.orchestration.telling import fail_if_refused, tell
from batchmark_job.result.scaling_options import ScalingRun


def check_environment(context: Context) -> str:
    """Check that the multi-node stack is valid and large enough for the run's largest job."""
    from batchmark.orchestration.tasks import environment

    with fail_if_refused(context):
        nodes = load_multi_node()
        config = nodes.joined_to(load_config())
    most = max(context["params"]["node_counts"], default=1)
    return environment.check(context, config, [nodes.target], nodes=most)


def plan_jobs(context: Context) -> Arguments:
    """Plan a multi-node training run, returning the same as `approved_jobs`."""
    from batchmark.runs.plans.options import parse_options
    from batchmark.runs.plans.scaling_plan import needs_files, plan_scaling, skipped_size_notes
    from batchmark.runs.run_file_system import check_tags

    def propose(config: Config, run_name: str) -> Proposal:
        nodes = load_multi_node()
        config = nodes.joined_to(config)
        params = context["params"]
        wanted = parse_options(ScalingRun, params)
        jobs = plan_scaling(nodes, config, wanted, run_name=run_name, repeats=params["repeats"])
        tell(*skipped_size_notes(wanted, jobs))
        if not needs_files(jobs):
            return Proposal(config, jobs)
        check_tags(context["run_id"])
        return Proposal(config, jobs, nodes)

    return approved_jobs(context, propose)
