"""# Noise calibration (A/A)

Runs one suite several times on each target and stores for each row how much equal jobs differ, and
so which change a comparison can find. `gpu_cpu_benchmark` checks its verdicts against the latest
tables, `noise/<suite>/<dtype>/<target>.json` in the result bucket; `runs/<run>/` keeps each run's.

Calibrate after a change of instance type, driver or torch: earlier tables no longer apply.

**Each run costs money in AWS:** targets x repeats jobs. It is refused if they could cost more than
`max_cost_usd`; `dry_run` shows how much that is.
"""

from typing import Any

from airflow.sdk import chain, dag, get_current_context, task

from batchmark.orchestration import assets, dag_parts, forms
from batchmark.orchestration.tasks import environment, run

PARAMS = forms.suite_params(
    repeats=6,
    fewest_repeats=2,
    about_repeats="Identical jobs per target. More jobs detect smaller changes; with 6 or more, "
    "the rule is also checked on the jobs themselves.",
    max_cost_usd=150,
)


@dag(
    dag_display_name="Noise calibration",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    params=PARAMS,
    description="How much equal jobs differ, and which change a comparison can find",
    tags=["batchmark", "calibration"],
    doc_md=__doc__,
    default_args=dag_parts.default_args(),
)
def noise_calibration():
    @task
    def check_environment() -> str:
        return environment.check_environment(get_current_context(), shared_too=False)

    @task
    def plan_jobs() -> list[dict[str, Any]]:
        return run.plan_jobs(get_current_context(), need_both_devices=False, purpose="calibration")

    @task(trigger_rule="all_done", outlets=[assets.RESULTS])
    def collect_results() -> str:
        return run.collect_results(get_current_context(), run_benchmark.task_id)

    @task
    def publish_noise(collected_key: str) -> str:
        return run.publish_noise(get_current_context(), collected_key)

    with dag_parts.group("measure"):
        planned = dag_parts.with_report_link(plan_jobs())
        run_benchmark = dag_parts.run_benchmark(planned)
        collected = collect_results()
        chain(check_environment(), planned, run_benchmark, collected)
    noise = dag_parts.with_report_link(publish_noise(collected))
    # Without a plan the run fails by that task alone.
    chain(planned, noise)


noise_calibration()
