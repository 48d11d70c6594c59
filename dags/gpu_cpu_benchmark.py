"""# GPU against CPU

Runs one suite on every target through AWS Batch, compares each GPU target with each CPU target in
time and cost, writes the report to `runs/<run>/` in the result bucket, and alerts of what became
slower, dearer or noisier since earlier runs.

**Each run costs money in AWS.** It is refused if its jobs could cost more than `max_cost_usd`;
`dry_run` shows how much that is. What looks slower is measured again by fresh jobs, within the
same limit. Terraform publishes the targets as the SSM parameter `/airflow/variables/batchmark`.
"""

from datetime import timedelta
from typing import Any

from airflow.sdk import CronTriggerTimetable, chain, dag, get_current_context, task

from batchmark.orchestration import assets, dag_parts
from batchmark.orchestration.tasks import alerts, environment, run

PARAMS = dag_parts.params(
    repeats=1,
    fewest_repeats=1,
    about_repeats="Jobs per target. With 6 or more, whole jobs have intervals, too.",
    max_cost_usd=50,
) | {"reruns": dag_parts.reruns_param()}


@dag(
    dag_display_name="GPU-CPU benchmark",
    # Without a start date, unpausing waits for the next Monday instead of running at once.
    schedule=CronTriggerTimetable(
        "0 3 * * 1", timezone="UTC", run_immediately=timedelta(minutes=10)
    ),
    catchup=False,
    max_active_runs=1,
    params=PARAMS,
    description="Every GPU target against every CPU target, in time and in dollars, and over time",
    tags=["batchmark", "benchmark"],
    doc_md=__doc__,
    default_args=dag_parts.default_args(),
)
def gpu_cpu_benchmark():
    @task
    def check_environment() -> str:
        return environment.check_environment(get_current_context(), shared_too=False)

    @task
    def plan_jobs() -> list[dict[str, Any]]:
        return run.plan_jobs(get_current_context())

    @task(trigger_rule="all_done", outlets=[assets.RESULTS])
    def collect_results() -> str:
        return run.collect_results(get_current_context(), run_benchmark.task_id)

    @task
    def compare(collected_key: str) -> str:
        return run.compare(get_current_context(), collected_key)

    @task
    def open_alerts(changes_key: str) -> list[str]:
        return alerts.open_alerts(get_current_context(), changes_key)

    @task(trigger_rule="all_done", outlets=[assets.REPORT])
    def publish_report(comparison_key: str | None) -> str:
        return run.publish_report(get_current_context(), comparison_key)

    @task(trigger_rule="all_done")
    def publish_alerts(alert_ids: list[str] | None, report_key: str | None) -> None:
        alerts.publish_alerts(get_current_context(), alert_ids, report_key)

    @task(outlets=[assets.REGRESSIONS])
    def announce_regressions() -> None:
        alerts.announce_regressions(get_current_context())

    with dag_parts.group("measure"):
        planned = dag_parts.with_report_link(plan_jobs())
        run_benchmark = dag_parts.run_benchmark(planned)
        collected = collect_results()
        chain(check_environment(), planned, run_benchmark, collected)
    compared = compare(collected)
    with dag_parts.group("watch"):
        changes = dag_parts.detect_regressions(collected)
        opened = open_alerts(changes)
    with dag_parts.group("publish"):
        report = dag_parts.with_report_link(publish_report(compared))
        chain(opened, report)
        publish_alerts(opened, report)
        announced = announce_regressions()
        chain(opened, announced)
    # A run that could not be planned is to fail by that task alone, all others skipped.
    chain(planned, announced)


gpu_cpu_benchmark()
