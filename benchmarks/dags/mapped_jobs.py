"""# Many short Batch jobs at once

Maps one operator over many jobs, to count what Airflow loses between a deferral and its end.
"""

from airflow.providers.amazon.aws.operators.batch import BatchOperator
from airflow.sdk import DAG, Param, get_current_context, task

from batchmark.operators.batch import BenchmarkJobOperator

ARGUMENTS = {"task_id": "run_job", "aws_conn_id": None, "poll_interval": 1, "retries": 0}
OPERATORS = {
    "provider": (BatchOperator, {"deferrable": True}),
    "batchmark": (BenchmarkJobOperator, {}),
}


@task
def plan_jobs():
    params = get_current_context()["params"]
    return [
        {
            "job_name": f"short-{number}",
            "job_queue": params["job_queue"],
            "job_definition": params["job_definition"],
            "parameters": {"seconds": str(number % params["longest_seconds"])},
        }
        for number in range(params["jobs"])
    ]


for name, (operator, more) in OPERATORS.items():
    with DAG(
        dag_id=f"mapped_jobs_{name}",
        schedule=None,
        max_active_tasks=64,
        params={
            "jobs": Param(200, type="integer", minimum=1),
            "longest_seconds": Param(8, type="integer", minimum=1),
            "job_queue": Param("", type="string"),
            "job_definition": Param("", type="string"),
        },
        doc_md=__doc__,
    ):
        operator.partial(**ARGUMENTS, **more).expand_kwargs(plan_jobs())
