"""# GPU against CPU

Runs one suite on every target through AWS Batch, compares each GPU target with each CPU target in
time and cost, writes the report to `runs/<run>/` in the result bucket, and sends alerts for
anything slower, dearer or noisier than in earlier runs.

**Each run costs money in AWS.** It is refused if its jobs could cost more than `max_cost_usd`;
`dry_run` shows the amount. Fresh jobs measure again whatever looks slower, within the same limit.
Terraform publishes the targets as the SSM parameter `/airflow/variables/batchmark`.
"""

from functools import partial

from airflow.sdk import dag

from batchmark.orchestration import dag_parts, forms
from batchmark.orchestration.tasks import environment, run

PARAMS = forms.suite_params(
    repeats=1,
    fewest_repeats=1,
    about_repeats="Jobs per target. With 6 or more, whole jobs have intervals, too.",
    max_cost_usd=50,
) | {"reruns": forms.reruns_param()}


@dag(
    dag_display_name="GPU-CPU benchmark",
    schedule=dag_parts.schedule("0 3 * * 1"),
    params=PARAMS,
    description="Compare every GPU target with every CPU target and with earlier runs",
    doc_md=__doc__,
    **dag_parts.dag_args("benchmark"),
)
def gpu_cpu_benchmark():
    dag_parts.benchmark(partial(environment.check_environment, shared_too=False), run.plan_jobs)


gpu_cpu_benchmark()
