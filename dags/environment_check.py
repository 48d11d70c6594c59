"""# Environment check

Checks what a benchmark needs before it costs money: compute environments, queues, job definitions,
image, roles, vCPU quotas, and that they are what Terraform published. One line per check, in the
log and in `runs/<run>/environment.html` in the result bucket. It submits nothing.

Every benchmark and calibration begins with the same check; a line that says *fail* stops it.
*Not checked* means that AWS gave no answer, never that all is well.
"""

from datetime import timedelta

from airflow.sdk import dag, get_current_context, task

from batchmark import dag_parts, environment_tasks


@dag(
    schedule=None,
    catchup=False,
    max_active_runs=1,
    params={"targets": dag_parts.targets_param()},
    description="Whether all is there that a benchmark needs",
    tags=["batchmark", "guard"],
    doc_md=__doc__,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=30)},
)
def environment_check():
    @task
    def check_environment() -> str:
        return environment_tasks.check_environment(get_current_context())

    check_environment()


environment_check()
