"""# Many short Batch jobs at once

Maps one operator over many jobs that only sleep. There is one DAG per operator.
"""

from airflow.providers.amazon.aws.operators.batch import BatchOperator
from airflow.sdk import DAG, Param, get_current_context, task

from batchmark.orchestration.operators.batch_operator import BenchmarkJobOperator

OPERATORS = {
    "batchmark": (BenchmarkJobOperator, {}),
    "provider_deferrable": (BatchOperator, {"deferrable": True}),
}


@task
def plan_jobs():
    params = get_current_context()["params"]
    return [
        {
            "job_name": f"{params['name']}-{number}",
            "job_queue": params["job_queue"],
            "job_definition": params["job_definition"],
            "parameters": {"seconds": str(params["seconds"][number % len(params["seconds"])])},
            "poll_interval": params["poll_interval"],
        }
        for number in range(params["jobs"])
    ]


for name, (operator, more) in OPERATORS.items():
    with DAG(
        dag_id=f"short_jobs_{name}",
        schedule=None,
        max_active_tasks=64,
        params={
            "name": Param("short", type="string", description="Prefix for job names."),
            "jobs": Param(200, type="integer", minimum=1),
            "seconds": Param([0], type="array", items={"type": "integer"}, minItems=1),
            "poll_interval": Param(1, type="integer", description="Seconds between polls."),
            "job_queue": Param("", type="string"),
            "job_definition": Param("", type="string"),
        },
        doc_md=__doc__,
    ):
        operator.partial(task_id="run_job", aws_conn_id=None, retries=0, **more).expand_kwargs(
            plan_jobs()
        )
