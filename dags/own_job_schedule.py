"""# Own job schedule

Starts *Own job benchmark* for each of Terraform's `own_jobs` whose `schedule` (in UTC) is due; it
checks every 15 minutes. A job that is still running is not started again. If a job missed runs,
for example while this DAG was paused, one run makes up for all of them. The ids of the runs that
this DAG starts begin with `schedule__`.

**Unpausing starts paid runs**: one at each scheduled time, with the form's defaults; `max_cost_usd`
refuses runs that could cost more. *Own job benchmark* must be unpaused, too.
"""

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import dag

from batchmark.core.kinds import OWN_JOB_DAG
from batchmark.orchestration import dag_parts
from batchmark.orchestration.tasks import own_job_schedule as tasks


@dag(
    dag_display_name="Own job schedule",
    schedule=dag_parts.schedule(f"*/{tasks.MINUTES} * * * *"),
    description="Start your own jobs when they are due",
    doc_md=__doc__,
    **dag_parts.dag_args("benchmark"),
)
def own_job_schedule():
    due = dag_parts.task_of(tasks.find_due)()
    TriggerDagRunOperator.partial(
        task_id="start_run",
        trigger_dag_id=OWN_JOB_DAG,
        logical_date=None,  # same as by hand: two may start at once
        skip_when_already_exists=True,
        fail_when_dag_is_paused=True,
        map_index_template="{{ task.conf['job'] }}",
    ).expand_kwargs(due)


own_job_schedule()
