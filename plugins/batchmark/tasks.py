"""What the DAG's tasks do. Tasks hand each other S3 keys, never results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from batchmark.config import load_config
from batchmark.exceptions import BatchmarkError
from batchmark.operators.batch import JOB_ID_XCOM
from batchmark.planning import operator_kwargs
from batchmark.planning import plan_jobs as plan
from batchmark.store import COLLECTED, COMPARISON, PLAN, REPORT_HTML, REPORT_JSON, RunStore

if TYPE_CHECKING:
    from airflow.sdk import Context


def plan_jobs(context: Context) -> list[dict[str, Any]]:
    """Check what was asked for and return one set of operator arguments per job."""
    from batchmark.run import RunPlan

    params = context["params"]
    run_id = context["run_id"]
    try:
        config = load_config()
        jobs = plan(
            config,
            run_id=run_id,
            suite=params["suite"],
            targets=params["targets"],
            repeats=params["repeats"],
            dtype=params["dtype"],
        )
    except BatchmarkError as error:
        raise AirflowFailException(str(error)) from error  # it would fail again
    RunStore.of(config, run_id).write(PLAN, RunPlan(jobs=tuple(jobs)).model_dump_json(indent=2))
    return [operator_kwargs(config, run_id, job) for job in jobs]


def collect_results(context: Context, run_task_id: str) -> str:
    """Gather the run's results; return the key of the collected run."""
    import boto3

    from batchmark.collecting import collect_run
    from batchmark.run import RunPlan

    config = load_config()
    run_id = context["run_id"]
    store = RunStore.of(config, run_id)
    plan_text = store.read_if_there(store.prefix + PLAN)
    if plan_text is None:
        raise AirflowFailException("nothing was planned; see the log of plan_jobs")
    planned = RunPlan.model_validate_json(plan_text).jobs
    job_ids = context["ti"].xcom_pull(
        task_ids=run_task_id, key=JOB_ID_XCOM, map_indexes=range(len(planned))
    )
    collected = collect_run(
        store,
        boto3.client("batch", region_name=config.region),
        boto3.client("logs", region_name=config.region),
        run_id=run_id,
        planned=planned,
        job_ids=job_ids,
    )
    for lost in collected.lost:
        print(f"No result from {lost.planned.target} ({lost.planned.suite}): {lost.reason}")
    return store.write(COLLECTED, collected.model_dump_json(indent=2))


def compare(context: Context, collected_key: str) -> str:
    """Compare each GPU target with each CPU target; return the key of the comparison."""
    from batchmark.comparison import compare as compare_run
    from batchmark.run import CollectedRun

    store = RunStore.of(load_config(), context["run_id"])
    comparison = compare_run(CollectedRun.model_validate_json(store.read(collected_key)))
    return store.write(COMPARISON, comparison.model_dump_json(indent=2))


def publish_report(context: Context, comparison_key: str) -> str:
    """Write report.json and report.html; return the key of the page.

    Raises:
        AirflowFailException: after publishing, when a job of the run failed or left no result.
    """
    from rich.console import Console

    from batchmark.comparison import Comparison
    from batchmark.report import build_report, render_html, render_json, render_table
    from batchmark.run import CollectedRun

    store = RunStore.of(load_config(), context["run_id"])
    comparison = Comparison.model_validate_json(store.read(comparison_key))
    report = build_report(comparison)
    store.write(REPORT_JSON, render_json(report))
    key = store.write(REPORT_HTML, render_html(report), "text/html")
    render_table(report, Console(width=160))
    print(f"Report: {store.object_url(key)}")
    collected = CollectedRun.model_validate_json(store.read(store.prefix + COLLECTED))
    problems = [f"{lost.planned.target}: {lost.reason}" for lost in collected.lost]
    problems += [f"{job.planned.target}: {job.failure}" for job in collected.jobs if job.failure]
    if problems:
        raise AirflowFailException(
            f"{len(problems)} job(s) failed; the report holds what there is: " + "; ".join(problems)
        )
    return key
