"""What a run can cost at most, and that nothing above a cap gets through."""

import math
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import numpy as np
import pytest
from pydantic import ValidationError

from batchmark.core.errors import PlanError
from batchmark.core.prices import PriceTable
from batchmark.runs.budget import parse_cap, refusals, worst_case
from batchmark.runs.spending import MonthSpending
from tests.builders.installations import configured, own_types
from tests.builders.runs import PRICES, build_job
from tests.builders.spending import build_spending

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
BAD_CAPS = [0, -1, -0.0, math.nan, math.inf, -math.inf, True, "50", [], 10**400]


def of_targets(**targets):
    return configured(targets=own_types(**targets))


def planned(name, count=1):
    return [build_job(name, []).planned] * count


def worst(config, jobs, prices=PRICES):
    return worst_case(config, jobs, prices, NOW)


def month(finished=0.0, reserved=0.0, **fields):
    runs = {
        "costs/2026-11/a.json": build_spending("a", finished=True, job_usd={"job": finished}),
        "costs/2026-11/b.json": build_spending("b", reserved_usd=reserved),
    }
    return MonthSpending(**{"month": "2026-11", "runs": runs, "unreadable": ()} | fields)


def test_attempts_times_timeout_times_price_times_jobs_by_hand():
    config = of_targets(
        **{
            "g5.xlarge": {"attempts": 2, "timeout_seconds": 1800, "on_demand_queue": None},
            "c5.2xlarge": {"attempts": 3, "timeout_seconds": 3600},
        }
    )
    seen = worst(config, [*planned("g5.xlarge", 5), *planned("c5.2xlarge", 2)])
    cpu, gpu = seen.targets
    assert (gpu.jobs, gpu.submissions, gpu.attempts, gpu.timeout_seconds) == (5, 1, 2, 1800)
    assert gpu.usd == 5.03  # 5 h at 1.006
    assert (cpu.jobs, cpu.submissions) == (2, 2)  # Spot first, then once the On-Demand queue
    assert cpu.usd == 4.08  # 12 h at 0.34
    assert (seen.usd, seen.most) == (
        9.11,
        "$9.11 (Spot jobs counted twice: they may run again On-Demand)",
    )
    assert (seen.region, seen.prices_as_of, seen.prices_source) == (
        PRICES.region,
        PRICES.as_of,
        PRICES.source,
    )
    old = PRICES.model_copy(update={"as_of": (NOW - timedelta(days=31)).date()})
    seen = worst(of_targets(**{"g5.xlarge": {}}), planned("g5.xlarge"), old)
    assert seen.notes[0].startswith("These prices are 31 days old (from 2026-10-20)")


def test_a_run_at_its_cap_passes_and_one_a_cent_above_is_refused_with_sum_parts_and_cap():
    config = of_targets(**{"g5.xlarge": {}, "c5.2xlarge": {}})
    seen = worst(config, [*planned("g5.xlarge", 2), *planned("c5.2xlarge")])
    assert seen.usd == 14.12  # 12.072, rounded up, and 2.04
    assert refusals(seen, max_cost_usd=14.12) == ()
    assert refusals(seen, max_cost_usd=None) == ()
    assert refusals(seen, max_cost_usd=14.11) == (
        (
            "This run can cost up to $14.12, above its max_cost_usd of $14.11: c5.2xlarge: "
            "$2.04 (jobs 1 × submissions 2 × attempts 3 × 3600 s at 0.34 USD per hour); "
            "g5.xlarge: $12.08 (jobs 2 × submissions 2 × attempts 3 × 3600 s at 1.006 USD "
            "per hour). Use fewer targets, sizes or repeats, or lower their timeout_seconds "
            "or attempts in Terraform's target_overrides or own_jobs, or a side's "
            "timeout_seconds, or raise max_cost_usd."
        ),
    )


def test_decimals_are_taken_as_written():
    """0.1 + 0.2 is above 0.3 in floats."""
    prices = PRICES.model_copy(update={"on_demand": {"g5.xlarge": 0.1, "c5.2xlarge": 0.2}})
    hour = {"attempts": 1, "timeout_seconds": 3600, "on_demand_queue": None}
    config = of_targets(**{"g5.xlarge": hour, "c5.2xlarge": hour})
    seen = worst(config, [*planned("g5.xlarge"), *planned("c5.2xlarge")], prices)
    assert refusals(seen, max_cost_usd=0.3) == ()
    spent = month(finished=0.1, reserved=0.2)
    assert refusals(seen, max_cost_usd=None, month=spent, monthly_cap_usd=0.6) == ()
    assert refusals(seen, max_cost_usd=None, month=spent, monthly_cap_usd=0.59)


def test_without_a_price_nothing_passes_a_cap():
    config = of_targets(**{"g5.xlarge": {}, "g5.48xlarge": {}})
    notes = {"g5.48xlarge": "No On-Demand price of g5.48xlarge is listed."}
    prices = PRICES.model_copy(update={"type_notes": notes})
    seen = worst(config, [*planned("g5.xlarge"), *planned("g5.48xlarge")], prices)
    assert (seen.usd, seen.targets[0].usd, seen.targets[1].usd) == (None, 6.04, None)
    assert str(seen.targets[1]).endswith("3600 s at no known USD per hour)")
    reason = (
        "This run's worst-case cost is unknown, so it can't be checked against {}: there is "
        "no On-Demand price for g5.48xlarge in us-east-1. No On-Demand price of g5.48xlarge is "
        "listed. Allow Airflow to call pricing:GetProducts, add prices with "
        '`make prices TYPES="g5.48xlarge"`, '
        "or run without a cap."
    )
    assert refusals(seen, max_cost_usd=1e12) == (reason.format("max_cost_usd"),)
    (refusal,) = refusals(seen, max_cost_usd=1e12, month=month(), monthly_cap_usd=1e12)
    assert refusal == reason.format("max_cost_usd and monthly_cap_usd")
    assert refusals(seen, max_cost_usd=None) == ()


def test_the_month_says_what_it_consists_of_when_it_refuses():
    config = of_targets(**{"c5.2xlarge": {}})
    seen = worst(config, planned("c5.2xlarge"))
    spent = month(finished=90.5, reserved=7.46)
    assert refusals(seen, max_cost_usd=50, month=spent, monthly_cap_usd=100) == ()
    assert refusals(seen, max_cost_usd=50, month=spent, monthly_cap_usd=99.99) == (
        (
            "Runs of 2026-11: $97.96 (1 finished $90.50; 1 planned and not finished, at most "
            "$7.46). With up to $2.04 for this run, that exceeds the monthly_cap_usd of "
            "$99.99. Use fewer targets, sizes or repeats, or lower their timeout_seconds or "
            "attempts in Terraform's target_overrides or own_jobs, or a side's "
            "timeout_seconds, wait for the next month, or raise monthly_cap_usd in Terraform."
        ),
    )
    both = refusals(seen, max_cost_usd=1, month=spent, monthly_cap_usd=1)
    assert [reason.partition(" ")[0] for reason in both] == ["This", "Runs"]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"unreadable": ("costs/2026-11/odd.json",)}, "costs/2026-11/odd.json"),
        ({"reserved": None}, "costs/2026-11/b.json"),
    ],
)
def test_a_month_that_cannot_be_summed_up_refuses_under_its_cap_only(fields, named):
    seen = worst(of_targets(**{"c5.2xlarge": {}}), planned("c5.2xlarge"))
    spent = month(**fields)
    assert refusals(seen, max_cost_usd=50, month=spent) == ()
    assert refusals(seen, max_cost_usd=50, month=spent, monthly_cap_usd=1e6) == (
        f"monthly_cap_usd is $1,000,000, but 2026-11 can't be summed up: {named} contain "
        "no valid amount. Correct them, or delete those of runs outside AWS.",
    )
    with pytest.raises(PlanError, match="the month's spending is unknown"):
        refusals(seen, max_cost_usd=None, monthly_cap_usd=5)


def test_a_plan_cleared_less_than_0_times_is_refused():
    with pytest.raises(ValidationError, match="generation"):
        build_spending("a", generation=-1)


@pytest.mark.parametrize("cap", BAD_CAPS, ids=lambda cap: repr(cap)[:12])
def test_a_cap_is_an_amount_or_none(cap):
    with pytest.raises(PlanError, match="max_cost_usd must be an amount above 0, or empty"):
        parse_cap(cap)
    assert [parse_cap(good) for good in (None, 5, 0.01)] == [None, 5, 0.01]


def random_plan(rng):
    """A configuration, its jobs and prices, of any size, with prices of any number of digits."""
    names = [f"c{n}.huge" for n in range(rng.integers(1, 5))]
    changes = {
        name: {
            "attempts": int(rng.integers(1, 11)),
            "timeout_seconds": int(10 ** rng.uniform(1.78, 6)),
            "on_demand_queue": [None, "arn:queue-cpu", "arn:another"][rng.integers(3)],
        }
        for name in names
    }
    on_demand = {
        name: round(10 ** rng.uniform(-3, 3), int(rng.integers(1, 12))) or 0.1
        for name in names
        if rng.random() > 0.05
    }
    jobs = [job for name in names for job in planned(name, int(10 ** rng.uniform(0, 2)))]
    prices = PriceTable(region="us-east-1", as_of=NOW.date(), source="", on_demand=on_demand)
    return of_targets(**changes), jobs, prices


def exact_cost(config, jobs, prices):
    """Every attempt of every job one after the other, in exact fractions; None without a price."""
    total = Fraction(0)
    for job in jobs:
        one = config.targets[job.target]
        if job.instance_type not in prices.on_demand:
            return None
        queues = {one.job_queue, one.on_demand_queue} - {None}
        seconds = len(queues) * one.attempts * one.timeout_seconds
        total += seconds * Fraction(repr(prices.on_demand[job.instance_type])) / 3600
    return total


def random_cap(rng, cost):
    """Far from the cost, or as near as floats get."""
    if rng.random() < 0.3:
        return 10 ** rng.uniform(-2, 9)
    near = float(cost) if rng.random() < 0.5 else round(float(cost), 2)
    steps = int(rng.integers(-3, 4))
    for _ in range(abs(steps)):
        near = math.nextafter(near, math.copysign(math.inf, steps))
    return max(near, 5e-324)


@pytest.mark.parametrize("seed", range(3))
def test_no_plan_above_its_cap_passes(seed):
    rng = np.random.default_rng(seed)
    passed = refused = unpriced = 0
    for _ in range(200):
        config, jobs, prices = random_plan(rng)
        seen = worst(config, jobs, prices)
        cost = exact_cost(config, jobs, prices)
        if cost is None:
            unpriced += 1
            assert refusals(seen, max_cost_usd=10 ** rng.uniform(-2, 300))
            continue
        for _ in range(4):
            cap = random_cap(rng, cost)
            spent = rng.uniform(0, float(cost)) if rng.random() < 0.5 else 0.0
            monthly = rng.random() < 0.5
            caps = {"max_cost_usd": None} | {"monthly_cap_usd" if monthly else "max_cost_usd": cap}
            reasons = refusals(seen, month=month(finished=spent), **caps)
            with_month = cost + (Fraction(repr(spent)) if monthly else 0)
            if reasons:
                refused += 1
                assert with_month + Fraction(len(seen.targets), 100) > Fraction(repr(cap))
            else:
                passed += 1
                assert with_month <= Fraction(repr(cap))
    assert min(passed, refused) > 100
    assert unpriced > 5
