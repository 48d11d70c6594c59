"""The tasks of a benchmark run, which pass each other S3 keys, never results."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from airflow.sdk import Context
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from batchmark.aws.result_bucket import (
    CHANGES_SECTION,
    COLLECTED,
    COMPARISON,
    NOISE_HTML,
    NOISE_JSON,
    REPORT_HTML,
    REPORT_JSON,
    SUMMARY,
    RunStore,
    noise_key,
)
from batchmark.core import formatting
from batchmark.core.config import Config
from batchmark.core.run import CollectedRun, LostJob, Purpose, RunPlan, StoredJob, StoredRun
from batchmark.orchestration.assets import REPORT, RESULTS, report_metadata, results_metadata
from batchmark.orchestration.publishing import publish_page
from batchmark.orchestration.settings import config_of, load_config
from batchmark.orchestration.tasks.approval import Arguments, approved_jobs
from batchmark.orchestration.tasks.budget import Proposal
from batchmark.orchestration.telling import tell
from batchmark.orchestration.xcom import states_of
from batchmark.runs.plans.planning import plan_jobs as plan


def plan_jobs(
    context: Context, *, need_both_devices: bool = True, purpose: Purpose = "scheduled"
) -> Arguments:
    """Plan a run of a suite, returning the same as `approved_jobs`."""
    params = context["params"]

    def propose(config: Config, run_name: str) -> Proposal:
        jobs = plan(
            config,
            run_name=run_name,
            suite=params["suite"],
            targets=params["targets"] or [],
            repeats=params["repeats"],
            dtype=params["dtype"],
            need_both_devices=need_both_devices,
            purpose=purpose,
        )
        return Proposal(config, jobs)

    return approved_jobs(context, propose)


def plan_sharing(context: Context) -> Arguments:
    """Plan a run of the suite `sharing`, returning the same as `approved_jobs`."""
    from batchmark.runs.plans.sharing_plan import plan_sharing as plan_tasks
    from batchmark.runs.plans.sharing_plan import sharing_options, skipped_size_notes

    params = context["params"]

    def propose(config: Config, run_name: str) -> Proposal:
        wanted = sharing_options(params)
        targets, repeats = params["targets"] or [], params["repeats"]
        jobs = plan_tasks(config, wanted, run_name=run_name, targets=targets, repeats=repeats)
        tell(*skipped_size_notes(config, wanted, jobs))
        return Proposal(config, jobs)

    return approved_jobs(context, propose)


def collect_results(context: Context, run_task_id: str) -> str:
    """Collect the run's results, settle its cost and append its rows to the history.

    Emit a RESULTS asset event with the history keys. Return the collected run's key.
    """
    from batchmark.orchestration.run_history import collect_jobs

    config = load_config()
    store = RunStore.of(config, context["run_id"])
    run_plan = submitted_plan(context, store, run_task_id)
    config = config_of(run_plan, config)
    collected = collect_jobs(context, store, config, run_task_id, run_plan.jobs)
    return record(context, config, store, run_plan, collected)


def submitted_plan(context: Context, store: RunStore, run_task_id: str) -> RunPlan:
    """Return the plan for the jobs that the task `run_task_id` ran.

    Raises:
        AirflowSkipException: there is no such plan, or the run is a dry run.
    """
    # After a run was cleared, the plan of its earlier life may still be there.
    is_planned = "upstream_failed" not in states_of(context, run_task_id)
    run_plan = store.plan()
    if not (is_planned and run_plan.jobs):
        raise AirflowSkipException("nothing was planned; see the failed task before this one")
    if run_plan.dry_run:
        raise AirflowSkipException("this is a dry run, so nothing was submitted")
    return run_plan


def record(
    context: Context, config: Config, store: RunStore, run_plan: RunPlan, collected: CollectedRun
) -> str:
    """Store a collected run, settle its cost and append it to the history; return its key."""
    from batchmark.history.store import HistoryStore, run_prices
    from batchmark.orchestration.tasks.budget import settle
    from batchmark.report.failures import not_run
    from batchmark.runs.collected_runs import store_run

    for lost in collected.lost:
        if not lost.not_run:
            tell(f"No result from {lost.planned.target} ({lost.planned.measures}): {lost.why}")
    tell(*not_run(collected.lost))
    settle(store, config, run_plan, collected)
    key = store_run(store, collected)
    history_keys = HistoryStore.of(config).append(
        collected, run_prices(store, config.region, collected), store.name
    )
    rows = sum(len(job.document.measurements) for job in collected.jobs)
    context["outlet_events"][RESULTS].extra = results_metadata(
        context["run_id"], history_keys, rows, (job.planned.target for job in collected.jobs)
    )
    jobs = formatting.count(len(collected.jobs), "job")
    tell(f"Collected {rows} rows of {jobs} and added them to the history.")
    return key


def compare(context: Context, collected_key: str) -> str:
    """Compare each GPU target with each CPU target; return the comparison's key."""
    from batchmark.analysis.comparison import compare as compare_run
    from batchmark.aws.price_list import stored_prices
    from batchmark.orchestration.run_history import calibrations
    from batchmark.runs.collected_runs import readable_run

    config = load_config()
    store = RunStore.of(config, context["run_id"])
    collected = readable_run(store, collected_key)
    prices = stored_prices(store, config.region, datetime.now(UTC))
    worst = store.plan().worst_case
    hourly = worst.file_system.usd_per_hour if worst and worst.file_system else None
    comparison = compare_run(collected, prices, calibrations(store, collected), hourly)
    tell(f"Compared {formatting.count(len(comparison.pairs), 'pair')} of targets.")
    return store.write(COMPARISON, comparison.model_dump_json(indent=2))


def publish_report(context: Context, comparison_key: str | None) -> str:
    """Write report.json, report.html and the linked pages; return the report's key.

    If all jobs succeeded, emit a REPORT asset event with each job's times.

    Raises:
        AirflowFailException: a job failed or left no result; raised after publishing.
    """
    from batchmark.analysis.comparison import Comparison
    from batchmark.changes.alerts.records import precision
    from batchmark.changes.alerts.store import AlertStore
    from batchmark.orchestration.tasks.budget import print_costs
    from batchmark.report.answer import summarize
    from batchmark.report.change_records import ChangesSection
    from batchmark.report.changes.alert_message import alert_board
    from batchmark.report.model import build_report, render_json
    from batchmark.report.page import page_html
    from batchmark.report.pages.run_page import run_page
    from batchmark.report.studies import beside
    from batchmark.runs.collected_runs import stored_run

    store = RunStore.of(load_config(), context["run_id"])
    collected = stored_run(store, store.prefix + COLLECTED)
    if comparison_key is None or collected is None:
        raise AirflowSkipException("nothing was compared; see the tasks before this one")
    comparison = Comparison.model_validate_json(store.read(comparison_key))
    gone = [lost for lost in comparison.lost if lost not in collected.lost]
    text = store.read_if_there(store.prefix + CHANGES_SECTION)
    changes = ChangesSection.model_validate_json(text) if text else None
    alerts = AlertStore(store).alerts()
    board = alert_board(alerts, precision(alerts), conf.get("api", "base_url", fallback=None))
    report = build_report(comparison, created_at=datetime.now(UTC), changes=changes, alerts=board)
    store.write(REPORT_JSON, render_json(report))
    store.write(SUMMARY, summarize(report).model_dump_json(indent=2))
    addresses = {
        one.section: store.object_url(store.write(one.file, page_html(one.page), "text/html"))
        for one in beside(report)
    }
    key = store.prefix + REPORT_HTML
    publish_page(context, store, key, run_page(report), "Report:", beside=addresses)
    print_costs(store, comparison.cost, comparison.prices)
    _fail_if_a_job_did(collected, "the report contains the available results", gone)
    context["outlet_events"][REPORT].extra = report_metadata(collected, comparison, key)
    return key


def publish_noise(context: Context, collected_key: str) -> str:
    """Store each target's noise table for later comparisons; return the page's key.

    A table already in use is kept if it outlives the new one; see `NoiseTable.outlives`.

    Raises:
        AirflowFailException: a target wasn't calibrated or a job failed; raised after publishing.
    """
    from batchmark.analysis.cost import run_costs
    from batchmark.analysis.judging.calibration import calibrate
    from batchmark.aws.price_list import stored_prices
    from batchmark.orchestration.run_history import noise_table
    from batchmark.orchestration.tasks.budget import print_costs
    from batchmark.report.pages.table_pages import noise_page
    from batchmark.runs.collected_runs import readable_run

    config = load_config()
    store = RunStore.of(config, context["run_id"])
    collected = readable_run(store, collected_key)
    report = calibrate(collected, region=config.region if store.is_aws() else None)
    store.write(NOISE_JSON, report.model_dump_json(indent=2))
    kept = []
    for calibration in report.calibrations:
        table = calibration.table
        key = noise_key(table.suite, table.dtype, table.target)
        before = noise_table(store, key)
        if before and (reason := before.outlives(table)):
            kept.append(f"Keeping {key} of run {before.run_id}: {reason}.")
        else:
            store.put(key, table.to_json())
    prices = stored_prices(store, config.region, datetime.now(UTC))
    print_costs(store, run_costs(collected, prices), prices)
    key = store.prefix + NOISE_HTML
    publish_page(context, store, key, noise_page(report, kept), "Noise:")
    if report.refused:
        raise AirflowFailException("; ".join(report.refused))
    _fail_if_a_job_did(collected, "the tables contain the available results")
    return key


def _fail_if_a_job_did(run: StoredRun, published: str, gone: Sequence[LostJob] = ()) -> None:
    """Fail if a job failed or left no result; `gone` lists jobs whose results have since been lost.

    A reason shared by several jobs appears once, without the log, which is in the report.
    """
    from batchmark.report.blocks import grouped

    failed: list[tuple[StoredJob | LostJob, str]] = [
        *((lost, lost.reason) for lost in (*run.lost, *gone) if not lost.not_run),
        *((job, job.failure) for job in run.jobs if job.failure),
    ]
    if not failed:
        return
    told = [
        f"{formatting.shortened_list(list(dict.fromkeys(targets)))}: {why}"
        for why, targets in grouped(
            (job.ending.how if job.ending else why.split("\n")[0], job.planned.target)
            for job, why in failed
        ).items()
    ]
    left = sum(one.not_run for one in run.lost)
    others = f", {left} not run" if left else ""
    raise AirflowFailException(
        f"{len(failed)} job(s) failed{others}; {published}: {'; '.join(told)}"
    )
