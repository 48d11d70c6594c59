"""# Noise calibration (A/A)

Runs one suite several times on each target and stores, row by row, how far equal jobs differ and
which change a comparison can therefore find. `gpu_cpu_benchmark` holds its verdicts against the
latest tables, `noise/<suite>/<target>.json` in the result bucket; `runs/<run>/` keeps each run's.

Calibrate after a change of instance type, driver or torch: tables from before no longer apply.

**Each run costs money in AWS:** targets x repeats jobs.
"""

from datetime import timedelta
from typing import Any

from airflow.sdk import Param, chain, dag, get_current_context, task

from batchmark import tasks
from batchmark.operators.batch import BenchmarkJobOperator
from batchmark.suites import DTYPES, MAX_REPEATS, OWN_DTYPES, SUITES

PARAMS = {
    "suite": Param("blog", enum=list(SUITES), description="What to measure.", section="What"),
    "dtype": Param(
        OWN_DTYPES,
        enum=[OWN_DTYPES, *DTYPES],
        description="Number format of every row; 'suite' leaves each row its own.",
        section="What",
    ),
    "targets": Param(
        [],
        type="array",
        items={"type": "string"},
        description="Instance types, one a line; none means all that Terraform made.",
        section="Where",
    ),
    "repeats": Param(
        5,
        type="integer",
        minimum=2,
        maximum=MAX_REPEATS,
        description="Equal jobs per target. The more, the smaller the change that shows.",
        section="Where",
    ),
}


@dag(
    schedule=None,
    catchup=False,
    max_active_runs=1,
    params=PARAMS,
    description="How far equal jobs differ, and which change a comparison can find",
    tags=["batchmark", "calibration"],
    doc_md=__doc__,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=30)},
)
def noise_calibration():
    @task
    def plan_jobs() -> list[dict[str, Any]]:
        return tasks.plan_jobs(get_current_context(), need_both_devices=False)

    @task(trigger_rule="all_done")
    def collect_results() -> str:
        return tasks.collect_results(get_current_context(), run_benchmark.task_id)

    @task
    def publish_noise(collected_key: str) -> str:
        return tasks.publish_noise(get_current_context(), collected_key)

    run_benchmark = BenchmarkJobOperator.partial(
        task_id="run_benchmark",
        aws_conn_id=None,
        poll_interval=5,
        retries=0,
        map_index_template="{{ task.job_name }}",
    ).expand_kwargs(plan_jobs())
    collected = collect_results()
    chain(run_benchmark, collected)
    publish_noise(collected)


noise_calibration()
