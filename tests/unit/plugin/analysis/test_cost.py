"""What time costs, at the price it was bought at."""

from datetime import UTC, datetime

import pytest

from batchmark.analysis.comparison import compare
from batchmark.analysis.cost import (
    EARLIER_ATTEMPTS,
    PriceBasis,
    efficiency,
    job_cost,
    lost_cost,
    price_basis,
    run_costs,
    spot_factor,
    usd_per_million_calls,
)
from batchmark.core.config import Target
from batchmark.core.intervals import Estimate, Interval
from batchmark.core.prices import SpotPrice
from batchmark.core.run import purchase_option
from tests.builders.installations import target
from tests.builders.runs import (
    CPU_ENVIRONMENT,
    LAPTOP_ENVIRONMENT,
    build_job,
    build_lost,
    build_row,
    build_run,
)
from tests.builders.runs import PRICES as ON_DEMAND

GPU = PriceBasis(instance_type="g5.xlarge", usd_per_hour=1.006, measured_on_it=True)
CPU = PriceBasis(instance_type="c5.2xlarge", usd_per_hour=0.34, measured_on_it=True)
UNPRICED = PriceBasis(
    instance_type="x9.huge", usd_per_hour=None, measured_on_it=True, note="No price of x9.huge."
)
TEN = Estimate(value=10, interval=Interval(low=8, high=12))
PRICES = ON_DEMAND.model_copy(
    update={
        "spot": {
            "c5.2xlarge": SpotPrice(
                zones={"us-east-1a": 0.12, "us-east-1b": 0.15, "us-east-1c": 0.2},
                changed_at=datetime(2026, 11, 20, 8, tzinfo=UTC),
            )
        }
    }
)


def target_record(name, *jobs):
    """A CPU target's record, made of one job of each of these settings."""
    gpu = build_job("g5.xlarge", [build_row((0.1,))])
    cpus = [
        build_job(name, [build_row((0.1,))], repeat=repeat, **fields)
        for repeat, fields in enumerate(jobs or ({},), start=1)
    ]
    return compare(build_run(gpu, *cpus), PRICES).pairs[0].cpu


@pytest.mark.parametrize(
    ("compute_environment", "ours", "bought"),
    [
        ("g5-spot", {}, "spot"),
        ("g5-on-demand", {}, "on_demand"),
        ("somebody-elses", {}, None),
        (None, {}, None),
        ("g5-spot", {"on_demand": None}, "spot"),
        (None, {"spot": None}, None),
    ],
)
def test_a_jobs_compute_environment_tells_how_it_was_bought(compute_environment, ours, bought):
    environments = {"spot": "g5-spot", "on_demand": "g5-on-demand"} | ours
    record = Target.model_validate(target("cuda", compute_environments=environments))
    assert purchase_option(record, compute_environment) == bought


def test_efficiency_by_hand():
    """10 times faster at 2.959 times the price."""
    estimate = efficiency(TEN, GPU, CPU).estimate
    assert estimate.value == pytest.approx(3.3797, abs=1e-4)
    assert estimate.interval.low == pytest.approx(2.7038, abs=1e-4)
    assert estimate.interval.high == pytest.approx(4.0557, abs=1e-4)
    # It is unknown without a price or a speed-up.
    assert efficiency(TEN, UNPRICED, CPU).reason == "No price of x9.huge."
    assert efficiency(TEN, GPU, UNPRICED).estimate is None
    assert efficiency(None, GPU, CPU).reason == "the times are not compared"


def test_cost_of_a_million_calls_by_hand():
    """A million calls of 3.6 ms are one hour."""
    call = Estimate(value=0.0036, interval=Interval(low=0.0018, high=0.0072))
    cost = usd_per_million_calls(call, GPU)
    assert cost.value == pytest.approx(1.006)
    assert (cost.interval.low, cost.interval.high) == pytest.approx((0.503, 2.012))
    assert usd_per_million_calls(call, UNPRICED) is None


def cpu_job(name="c5.2xlarge", **fields):
    return build_job(name, [build_row((0.1,))], **fields)


def paid(prices=PRICES, **fields):
    """What an hour's job of c5.2xlarge cost."""
    return job_cost(cpu_job(**{"batch_seconds": 3600.0} | fields), prices)


def in_zone(zone):
    return CPU_ENVIRONMENT.model_copy(update={"availability_zone": zone})


@pytest.mark.parametrize("option", ["on_demand", "spot", None])
def test_targets_are_weighed_at_on_demand_prices_however_they_were_bought(option):
    basis = price_basis(target_record("c5.2xlarge", {"purchase_option": option}), PRICES)
    assert (basis.usd_per_hour, basis.spot_usd_per_hour) == (0.34, 0.15)
    assert basis.measured_on_it
    assert basis.note is None


def test_jobs_bought_in_different_ways_have_costs_of_their_own_and_one_common_price():
    jobs = (
        {"purchase_option": "spot", "batch_seconds": 3600.0, "environment": in_zone("us-east-1a")},
        {"purchase_option": "on_demand", "batch_seconds": 1800.0},
    )
    assert price_basis(target_record("c5.2xlarge", *jobs), PRICES).usd_per_hour == 0.34
    cost = run_costs(
        build_run(*(cpu_job(repeat=n, **fields) for n, fields in enumerate(jobs, start=1))), PRICES
    )
    assert [one.usd for one in cost.jobs] == [pytest.approx(0.12), pytest.approx(0.17)]
    assert [one.purchase_option for one in cost.jobs] == ["spot", "on_demand"]
    assert [(one.target, one.repeat) for one in cost.jobs] == [("c5.2xlarge", 1), ("c5.2xlarge", 2)]
    assert (cost.usd, cost.reason) == (pytest.approx(0.29), None)


def test_the_factor_of_buying_both_on_spot_by_hand():
    gpu, cpu = (
        basis.model_copy(update={"spot_usd_per_hour": usd})
        for basis, usd in ((GPU, 0.4), (CPU, 0.1))
    )
    assert spot_factor(gpu, cpu) == pytest.approx((0.1 / 0.4) * (1.006 / 0.34))
    assert spot_factor(gpu, CPU) is spot_factor(GPU, cpu) is None
    assert spot_factor(gpu.model_copy(update={"usd_per_hour": None}), cpu) is None


MEDIAN = "its jobs are charged at the median of 3 zones, which range from 0.12 to 0.2 USD per hour."
NO_SPOT_PRICE = "there is no Spot price for it in us-east-1 as of 2026-11-20."
UNKNOWN = "How c5.2xlarge was purchased is unknown; its jobs are charged as On-Demand."


@pytest.mark.parametrize(
    ("option", "zone", "lacking", "usd", "reason"),
    [
        ("spot", "us-east-1c", None, 0.2, None),
        ("spot", None, None, 0.15, f"c5.2xlarge ran on Spot in an unknown zone; {MEDIAN}"),
        ("spot", "us-east-1f", None, 0.15, f"c5.2xlarge ran on Spot in us-east-1f; {MEDIAN}"),
        ("spot", "us-east-1c", "spot", None, f"c5.2xlarge ran on Spot, but {NO_SPOT_PRICE}"),
        ("spot", "us-east-1b", "on_demand", 0.15, None),
        (None, None, None, 0.34, UNKNOWN),
    ],
)
def test_an_hour_costs_what_it_was_bought_at(option, zone, lacking, usd, reason):
    prices = PRICES.model_copy(update={lacking: {}} if lacking else {})
    cost = paid(prices, purchase_option=option, environment=in_zone(zone))
    assert (cost.purchase_option, cost.reason) == (option, reason)
    assert cost.usd == pytest.approx(usd)


def test_attempts_before_the_last_are_paid_too():
    cost = paid(purchase_option="on_demand", earlier_seconds=1800.0)
    assert (cost.seconds, cost.usd) == (5400.0, pytest.approx(1.5 * 0.34))
    assert cost.reason == EARLIER_ATTEMPTS
    assert paid(earlier_seconds=1.0).reason.endswith(f"charged as On-Demand. {EARLIER_ATTEMPTS}")


def test_cost_of_jobs_and_run_by_hand():
    job = cpu_job(batch_seconds=90.0, purchase_option="on_demand")
    cost = job_cost(job, PRICES)
    assert (cost.usd, cost.reason) == (pytest.approx(0.34 / 40), None)
    other = cpu_job("c9.huge")
    unpriced = job_cost(other, PRICES)
    assert unpriced.usd is None
    assert unpriced.reason == "No cost is shown for c9.huge: its time was measured on c5.2xlarge."

    both = run_costs(build_run(job, job), PRICES)
    assert (both.usd, both.reason) == (pytest.approx(0.017), None)
    partly = run_costs(build_run(job, other), PRICES)
    assert partly.usd == pytest.approx(0.0085)
    assert partly.reason == "not included: 1 of 2 jobs of unknown cost"
    assert run_costs(build_run(other), PRICES).usd is None
    assert run_costs(build_run(), PRICES).usd is None


def lost(**fields):
    return build_lost("c5.2xlarge", "exit code 3").model_copy(update={"job_id": "lost", **fields})


def test_jobs_without_a_result_or_that_others_count_instead_of_are_paid_too():
    cost = lost_cost(lost(instance_type="c5.2xlarge", seconds=1800.0), PRICES)
    assert (cost.job_id, cost.seconds, cost.usd) == ("lost", 1800.0, pytest.approx(0.17))
    assert cost.reason == UNKNOWN
    run = build_run(cpu_job(batch_seconds=3600.0, purchase_option="on_demand"))
    cleared = lost(instance_type="c5.2xlarge", seconds=3600.0)
    cost = run_costs(run.model_copy(update={"superseded": (cleared,)}), PRICES)
    assert (cost.usd, cost.reason) == (pytest.approx(2 * 0.34), None)


@pytest.mark.parametrize("fields", [{"job_id": None}, {"instance_type": "c5.2xlarge"}, {}])
def test_a_job_that_never_started_cost_nothing_wherever_that_was(fields):
    cost = lost_cost(lost(seconds=0.0, **fields), PRICES)
    assert (cost.usd, cost.reason) == (0, None)


ELSEWHERE = "No cost is shown for c5.2xlarge: its time was measured on"
UNENDED = (
    "The run time of a c5.2xlarge job is unknown: it left no result, and Batch reports no end time."
)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"instance_type": "c5.2xlarge"}, UNENDED),
        ({"seconds": 9.0}, f"{ELSEWHERE} a machine outside EC2."),
    ],
)
def test_a_lost_job_without_a_cost_says_why_and_is_counted_as_missing(fields, reason):
    one = lost(**fields)
    assert (lost_cost(one, PRICES).usd, lost_cost(one, PRICES).reason) == (None, reason)
    priced = lost(instance_type="c5.2xlarge", seconds=3600.0)
    cost = run_costs(build_run(cpu_job(batch_seconds=3600.0), lost=[priced, one]), PRICES)
    assert cost.usd == pytest.approx(2 * 0.34)
    assert cost.reason == "not included: 1 of 3 jobs of unknown cost"


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        (LAPTOP_ENVIRONMENT, "a machine outside EC2"),
        (CPU_ENVIRONMENT.model_copy(update={"instance_type": "c5.4xlarge"}), "c5.4xlarge"),
    ],
)
def test_time_measured_elsewhere_has_no_price_whatever_it_is_asked_for(environment, place):
    record = target_record("c5.2xlarge", {"environment": environment})
    basis = price_basis(record, PRICES)
    reason = f"{ELSEWHERE} {place}."
    assert (basis.usd_per_hour, basis.measured_on_it, basis.note) == (None, False, reason)
    assert efficiency(TEN, GPU, basis).reason == reason
    assert usd_per_million_calls(TEN, basis) is None
    cost = job_cost(cpu_job(environment=environment), PRICES)
    assert (cost.usd, cost.reason) == (None, reason)


def test_without_a_result_or_a_price_of_its_type_it_says_why():
    environment = CPU_ENVIRONMENT.model_copy(update={"instance_type": "c99.huge"})
    basis = price_basis(target_record("c99.huge", {"environment": environment}), PRICES)
    assert basis.usd_per_hour is None
    assert basis.note == (
        "The prices from 2026-11-20 include no On-Demand price for c99.huge in us-east-1: run "
        "`make prices` to add it to the committed table."
    )
    record = target_record("c5.2xlarge").model_copy(update={"jobs": ()})
    basis = price_basis(record, PRICES)
    assert basis.note == "No cost is shown for c5.2xlarge: none of its jobs left a result."
    assert not basis.measured_on_it
