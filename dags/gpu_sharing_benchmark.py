"""# GPU sharing

Runs 1, 2, 5, 10 and 20 replicas of a task on one device: one after the other, time-sliced, through
MPS and on CUDA streams. The report shows their total throughput, how evenly it is shared, and up to
how many replicas it pays to share. Anything slower than in earlier runs opens an alert.

A target whose jobs share an instance (`shared_targets` in Terraform) runs one array job for each
replica count, one after the other. Any other target runs one job, in which processes share the
device.

**Each run costs money in AWS.** It is refused if its jobs could cost more than `max_cost_usd`;
`dry_run` shows the amount.
"""

from airflow.sdk import dag

from batchmark.orchestration import dag_parts, forms
from batchmark.orchestration.tasks import environment, run


@dag(
    dag_display_name="GPU sharing benchmark",
    params=forms.sharing_params(),
    description="Measure how many tasks can share one GPU, in which mode and at what cost",
    doc_md=__doc__,
    schedule=None,
    **dag_parts.dag_args("benchmark"),
)
def gpu_sharing_benchmark():
    dag_parts.benchmark(environment.check_environment, run.plan_sharing)


gpu_sharing_benchmark()
