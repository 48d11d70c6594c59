"""# GPU sharing on EKS

Runs the sharing suite as pods of an EKS cluster (`terraform/stacks/eks_gpu_sharing`). The first job
starts without sharing and has more pods than the node has GPUs: those without a GPU wait until
time-slicing is switched on. Further jobs follow, one for each number of pods. Container, bucket,
history and report are the same as for Batch.

It starts the GPU node, and terminates it however the run ends. **Each run costs money in AWS**: the
node's time. It is refused if that could exceed `max_cost_usd`; `dry_run` shows the amount.
"""

from airflow.sdk import chain, dag, task

from batchmark.orchestration import dag_parts, forms
from batchmark.orchestration.pods.pods_operator import PodsOperator
from batchmark.orchestration.tasks import pods
from batchmark.runs.plans.pod_plan import TRIES


@dag(
    dag_display_name="EKS GPU sharing benchmark",
    params=forms.pods_params(),
    description="Measure how many pods can share a node's GPUs by time-slicing",
    doc_md=__doc__,
    schedule=None,
    **dag_parts.dag_args("benchmark"),
)
def eks_gpu_sharing_benchmark():
    planned = dag_parts.with_report_link(dag_parts.task_of(pods.plan_pods)())
    started = dag_parts.task_of(pods.start_node)()
    ready = dag_parts.task_of(pods.wait_for_node)()
    run_pods = PodsOperator.partial(
        task_id="run_pods",
        retries=TRIES - 1,
        # They use the same GPUs in different modes. The scheduler follows the plan's order.
        max_active_tis_per_dagrun=1,
    ).expand_kwargs(planned)
    collected = dag_parts.collect_results(pods.collect_results, run_pods)
    # Ends the node even if the run fails or is marked as failed.
    end_node = task(**dag_parts.TEARDOWN_RETRIES)(pods.end_node)
    ended = end_node().as_teardown(setups=started, on_failure_fail_dagrun=True)
    chain(planned, started, ready, run_pods, [collected, ended])
    dag_parts.conclude(planned, collected, reruns=False)


eks_gpu_sharing_benchmark()
