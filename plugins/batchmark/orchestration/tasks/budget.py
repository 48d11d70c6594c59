"""Approves and books a run's worst-case cost before submission; later books its actual cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from airflow.sdk import Context

from batchmark.analysis.cost import RunCost, run_costs
from batchmark.aws.price_list import RunPrices, current_prices, price_clients, stored_prices
from batchmark.aws.result_bucket import PLAN, PLAN_HTML, RunStore
from batchmark.core.clusters.multi_node import MultiNode
from batchmark.core.config import Config, Target
from batchmark.core.errors import BudgetError, PlanError
from batchmark.core.prices import PriceTable
from batchmark.core.run import CollectedRun, PlannedJob, RunPlan
from batchmark.orchestration.links import page_url
from batchmark.orchestration.operators.batch_operator import generation
from batchmark.orchestration.schedules import runs_next_month
from batchmark.orchestration.telling import console, tell
from batchmark.report.page import page_html
from batchmark.report.pages.table_pages import plan_page
from batchmark.report.site.costs import Forecast
from batchmark.report.tables import amount, cost_blocks, worst_case_blocks
from batchmark.report.terminal.sections import print_blocks
from batchmark.runs.budget import RUN_CAP, book, parse_cap, refusals, worst_case
from batchmark.runs.spending import RunSpending, month_spending, run_spending, spending_key


class Proposal(NamedTuple):
    """A run's planned jobs, with the configuration that contains their targets."""

    config: Config
    jobs: Sequence[PlannedJob]
    nodes: MultiNode | None = None  # that mount a file system of the run's own, if it needs one
    sides: Mapping[str, Target] = {}  # targets that are no installation's
    prices: RunPrices | None = None  # where they were asked for already
    schedule: str | None = None  # of a user's own job


def prices_of(config: Config, instance_types: set[str]) -> RunPrices:
    """Get the current prices of these instance types."""
    return current_prices(
        *price_clients(config.region),
        region=config.region,
        instance_types=instance_types,
        now=datetime.now(UTC),
    )


def approve(context: Context, proposal: Proposal) -> RunPlan:
    """Check a run against the cost caps, book its worst case, and store its prices and plan.

    A dry run books nothing: it only stores its plan and prints whether the run would be refused.

    Raises:
        PlanError: the cap isn't a valid amount, the run id is taken, or the run could exceed a cap.
        Nothing was written, unless another run was planned at the same time.
    """
    config, jobs, nodes, sides, prices, schedule = proposal
    params = context["params"]
    cap = parse_cap(params[RUN_CAP])
    store = RunStore.of(config, context["run_id"])
    check_run_id(context, store)
    file_system = nodes.file_system if nodes else None
    now = datetime.now(UTC)
    prices = prices or prices_of(config, {job.instance_type for job in jobs})
    worst = worst_case(config, jobs, prices.table, now, file_system)
    print_blocks(worst_case_blocks(worst), console())
    key = spending_key(store, now)
    number = generation(context)
    month = month_spending(store, key)
    before = month.runs.get(key)
    if before and before.run_id != context["run_id"]:
        raise PlanError(_taken(context, f"used by the booking of run {before.run_id!r}"))
    kept = before.replanned(number) if before else None
    month = month.without(key, kept)
    tell(month)
    reasons = refusals(worst, max_cost_usd=cap, month=month, monthly_cap_usd=config.monthly_cap_usd)
    plan = RunPlan(
        jobs=tuple(jobs),
        worst_case=worst,
        dry_run=params["dry_run"],
        dag_id=context["ti"].dag_id,
        run_id=context["run_id"],
        file_system=file_system,
        compute_environment=nodes.compute_environment if nodes else None,
        sides=dict(sides),
    )
    if plan.dry_run:
        for reason in reasons:
            tell(f"This run would be refused. {reason}")
        store.write(PLAN, plan.model_dump_json(indent=2))
        if forecast := _forecast(context, plan, schedule, now):
            tell(forecast)
        html = page_html(
            plan_page(plan, worst, reasons, forecast=forecast, where=_local_cost_suffix(store))
        )
        page = store.write(PLAN_HTML, html, "text/html")
        tell(f"Dry run: nothing is submitted. Its plan: {page_url(context, store, page)}")
        return plan
    if reasons:
        raise BudgetError(f"Nothing was submitted. {' '.join(reasons)}")
    kept = kept or RunSpending(
        run_id=context["run_id"], planned_at=now, generation=number, reserved_usd=0.0
    )
    if reasons := book(
        store, key, kept, worst, monthly_cap_usd=config.monthly_cap_usd, if_refused=kept
    ):
        raise BudgetError(
            "Nothing was submitted, because another run was planned at the same time. "
            f"{' '.join(reasons)}"
        )
    prices.store(store)
    plan = plan.model_copy(update={"spending_key": key})
    store.write(PLAN, plan.model_dump_json(indent=2))
    return plan


def _forecast(context: Context, plan: RunPlan, schedule: str | None, now: datetime) -> str:
    """Forecast the most that runs like this can cost next month; return "" without a schedule.

    `schedule` is that of the user's own job; by default, the DAG's is used.
    """
    what = f"own job {plan.own_job}" if schedule else plan.dag_id or ""
    runs = runs_next_month(schedule or getattr(context["dag"].timetable, "expression", None), now)
    most = plan.worst_case.usd if plan.worst_case else None
    return "" if runs is None else Forecast(what, runs, paused=False, most_usd=most).text


def check_run_id(context: Context, store: RunStore) -> None:
    """Reject a run id used by another DAG: the runs would share a folder, jobs and a booking.

    Also reject an id whose folder already belongs to a run with a different id.

    Raises:
        PlanError: the id is taken.
    """
    plan = store.plan()
    if plan.dag_id not in (None, context["ti"].dag_id):
        raise PlanError(_taken(context, f"used by a run of {plan.dag_id}"))
    if plan.run_id not in (None, context["run_id"]):
        raise PlanError(_taken(context, f"used by the folder of run {plan.run_id!r}"))


def _taken(context: Context, whose: str) -> str:
    return f"run id {context['run_id']!r} is already {whose}: choose another"


def settle(store: RunStore, config: Config, plan: RunPlan, collected: CollectedRun) -> None:
    """Replace a run's booked worst case with its actual cost.

    Jobs with an unknown cost stay booked at their worst case. Jobs on a local cloud cost nothing.
    """
    if plan.spending_key is None or plan.worst_case is None:
        return
    key = plan.spending_key
    now = datetime.now(UTC)
    record = run_spending(store, key) or RunSpending(
        run_id=collected.run_id, planned_at=now, generation=0, reserved_usd=0.0
    )
    costs = run_costs(collected, stored_prices(store, config.region, now))
    settled = record.settled(costs.jobs, plan.worst_case, free=not store.is_aws())
    store.put(key, settled.model_dump_json(indent=2))


def print_costs(store: RunStore, cost: RunCost, prices: PriceTable) -> None:
    """Print a run's actual cost, its worst case, and the month's total."""
    print_blocks(cost_blocks(cost, prices), console())
    plan = store.plan()
    if plan.worst_case and plan.spending_key:
        tell(f"Its worst case was {amount(plan.worst_case.usd)}{_local_cost_suffix(store)}.")
        tell(month_spending(store, plan.spending_key))


def _local_cost_suffix(store: RunStore) -> str:
    """Return a suffix that says that an amount applies only in AWS; empty if the jobs run there."""
    return "" if store.is_aws() else " in AWS; on this machine it costs nothing"
