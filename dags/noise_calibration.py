"""# Noise calibration (A/A)

Runs one suite several times on each target, and records for each row how much identical jobs
differ, and therefore which changes a comparison can detect. `gpu_cpu_benchmark` checks its verdicts
against the latest tables, `noise/<suite>/<dtype>/<target>.json` in the result bucket; each run's
own tables are in `runs/<run>/`.

Calibrate again after changing the instance type, driver or torch: older tables no longer apply.

**Each run costs money in AWS:** targets x repeats jobs. It is refused if they could cost more than
`max_cost_usd`; `dry_run` shows the amount.
"""

from functools import partial

from airflow.sdk import chain, dag

from batchmark.orchestration import dag_parts, forms
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
    params=PARAMS,
    description="Measure how much identical jobs differ, and which changes a comparison can detect",
    doc_md=__doc__,
    **dag_parts.dag_args("calibration"),
)
def noise_calibration():
    planned, collected, _ = dag_parts.measure(
        partial(environment.check_environment, shared_too=False),
        partial(run.plan_jobs, need_both_devices=False, purpose="calibration"),
    )
    noise = dag_parts.with_report_link(dag_parts.task_of(run.publish_noise)(collected))
    # Without a plan, only that task's failure fails the run.
    chain(planned, noise)


noise_calibration()
