"""# Distributed training

Trains ResNet-50 on 1, 2, 4, 8, 16 and 20 nodes, one node count at a time, as multi-node Batch jobs
(`terraform/stacks/multi_node`). The report shows how well training scales (with intervals), where a
step's time goes, and what an epoch costs. Anything slower than in earlier runs opens an alert.

For images from files, the run creates an FSx for Lustre file system, links it to S3, and deletes it
however the run ends. With synthetic images only, it creates none.

**Each run costs money in AWS**: all nodes of each job, and the file system for as long as the run
takes. It is refused if that could exceed `max_cost_usd`; `dry_run` shows the amount.
"""

from airflow.sdk import dag

from batchmark.orchestration import dag_parts, forms
from batchmark.orchestration.operators.file_system_operators import (
    CollapseFileSystem,
    StandUpFileSystem,
)
from batchmark.orchestration.tasks import scaling


@dag(
    dag_display_name="Distributed training benchmark",
    params=forms.scaling_params(),
    description="Measure how training scales across nodes, and what that costs",
    doc_md=__doc__,
    schedule=None,
    **dag_parts.dag_args("benchmark"),
)
def distributed_training_benchmark():
    def layer() -> dag_parts.Layer:
        return dag_parts.Layer(
            StandUpFileSystem(task_id="stand_up_file_system"),
            CollapseFileSystem(task_id="collapse_file_system", **dag_parts.TEARDOWN_RETRIES),
        )

    dag_parts.benchmark(scaling.check_environment, scaling.plan_jobs, layer)


distributed_training_benchmark()
