"""Money's part in the DAGs' tasks: asked before anything is submitted, booked, told afterwards."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Console

from batchmark.budget import RUN_CAP, check_cap, refusals, worst_case
from batchmark.cost import run_costs
from batchmark.cost_terminal import amount, render_costs, render_worst_case
from batchmark.exceptions import BudgetError, PlanError
from batchmark.job_identity import generation
from batchmark.price_fetching import current_prices, price_clients, stored_prices
from batchmark.run import RunPlan
from batchmark.spending import RunSpending, month_spending, run_spending, spending_key
from batchmark.store import PLAN, RunStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from batchmark.budget import WorstCase
    from batchmark.config import Config
    from batchmark.run import CollectedRun, PlannedJob

TERMINAL_WIDTH = 160


def approve(context: Context, config: Config, jobs: Sequence[PlannedJob]) -> RunPlan:
    """Keep the plan of a run that may be submitted, its prices and what it can cost at most.

    A dry run is not refused but told what would be, and leaves its plan only.

    Raises:
        PlanError: the cap is no amount, or the run may cost more than is allowed; nothing was
            written then, except where another run was planned at the same time.
    """
    params = context["params"]
    cap = check_cap(RUN_CAP, params[RUN_CAP])
    store = RunStore.of(config, context["run_id"])
    check_run_id(context, store)
    now = datetime.now(UTC)
    prices = current_prices(
        *price_clients(config.region),
        region=config.region,
        instance_types={job.instance_type for job in jobs},
        now=now,
    )
    worst = worst_case(config, jobs, prices.table, now)
    render_worst_case(worst, Console(width=TERMINAL_WIDTH))
    key = spending_key(store, now)
    number = generation(context)
    month = month_spending(store, key)
    before = month.runs.get(key)
    kept = before.replanned(number) if before else None
    month = month.without(key, kept)
    print(month)
    reasons = refusals(worst, max_cost_usd=cap, month=month, monthly_cap_usd=config.monthly_cap_usd)
    plan = RunPlan(
        jobs=tuple(jobs), worst_case=worst, dry_run=params["dry_run"], dag_id=context["ti"].dag_id
    )
    if plan.dry_run:
        for reason in reasons:
            print(f"This run would be refused. {reason}")
        print(f"Dry run, nothing is submitted: {store.write(PLAN, plan.model_dump_json(indent=2))}")
        return plan
    if reasons:
        raise BudgetError(f"Nothing was submitted. {' '.join(reasons)}")
    kept = kept or RunSpending(
        run_id=context["run_id"], planned_at=now, generation=number, reserved_usd=0.0
    )
    _reserve(store, key, kept, worst, config.monthly_cap_usd)
    prices.store(store)
    plan = plan.model_copy(update={"spending_key": key})
    store.write(PLAN, plan.model_dump_json(indent=2))
    return plan


def check_run_id(context: Context, store: RunStore) -> None:
    """Refuse a run id that another DAG's run has: both would share folder, jobs and booking.

    Raises:
        PlanError: it is taken.
    """
    text = store.read_if_there(store.prefix + PLAN)
    other = RunPlan.model_validate_json(text).dag_id if text else None
    if other not in (None, context["ti"].dag_id):
        raise PlanError(f"run id {context['run_id']!r} is that of a run of {other}: choose another")


def _reserve(
    store: RunStore, key: str, kept: RunSpending, worst: WorstCase, monthly_cap_usd: float | None
) -> None:
    """Book the most that a run can cost, and sum up the month again with that in it.

    S3 lists what was written before. So of runs that are planned at the same time the last one to
    write sees all others, and never do two pass that exceed the cap together. Both may be refused.
    """
    store.put(key, kept.reserving(worst.usd).model_dump_json(indent=2))
    if monthly_cap_usd is None:
        return
    month = month_spending(store, key).without(key, kept)
    if reasons := refusals(worst, max_cost_usd=None, month=month, monthly_cap_usd=monthly_cap_usd):
        store.put(key, kept.model_dump_json(indent=2))
        raise BudgetError(
            "Nothing was submitted, for another run was planned at the same time. "
            f"{' '.join(reasons)}"
        )


def settle(store: RunStore, config: Config, plan: RunPlan, collected: CollectedRun) -> None:
    """Book what a run did cost instead of the most that it could.

    A job whose cost is not known stays booked at the most.
    """
    if plan.spending_key is None or plan.worst_case is None:
        return
    key = plan.spending_key
    now = datetime.now(UTC)
    record = run_spending(store, key) or RunSpending(
        run_id=collected.run_id, planned_at=now, generation=0, reserved_usd=0.0
    )
    costs = run_costs(collected, stored_prices(store, config.region, now))
    store.put(key, record.settled(costs.jobs, plan.worst_case).model_dump_json(indent=2))


def print_costs(store: RunStore, config: Config, collected: CollectedRun) -> None:
    """What a run's jobs cost, what they could have, and this month's sum."""
    prices = stored_prices(store, config.region, datetime.now(UTC))
    console = Console(width=TERMINAL_WIDTH)
    render_costs(run_costs(collected, prices), console)
    text = store.read_if_there(store.prefix + PLAN)
    plan = RunPlan.model_validate_json(text) if text else None
    if plan and plan.worst_case and plan.spending_key:
        print(f"At most it could have cost {amount(plan.worst_case.usd)}.")
        print(month_spending(store, plan.spending_key))
