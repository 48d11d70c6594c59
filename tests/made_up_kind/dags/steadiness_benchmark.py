"""Runs equal jobs on each target, and says how far apart they lie."""

from airflow.sdk import dag
from batchmark.core.steadiness import SUITE, SteadinessRun

from batchmark.orchestration import dag_parts, forms
from batchmark.orchestration.tasks.approval import approved_jobs
from batchmark.orchestration.tasks.budget import Proposal
from batchmark.orchestration.tasks.environment import check_environment
from batchmark.runs.plans.options import parse_options
from batchmark.runs.plans.planning import plan_jobs


def plan(context):
    def propose(config, run_name):
        wanted = parse_options(SteadinessRun, context["params"])
        jobs = plan_jobs(
            config, run_name=run_name, suite=SUITE, need_both_devices=False, **wanted.model_dump()
        )
        return Proposal(config, jobs)

    return approved_jobs(context, propose)


@dag(
    dag_display_name="Steadiness benchmark",
    params={**forms.option_params(SteadinessRun), **forms.of_any_run()},
    schedule=None,
    **dag_parts.dag_args("benchmark"),
)
def steadiness_benchmark():
    dag_parts.benchmark(check_environment, plan)


steadiness_benchmark()
