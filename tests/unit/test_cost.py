"""Prices and what time costs at them."""

from __future__ import annotations

from datetime import date

import pytest

from batchmark.comparison import compare
from batchmark.cost import (
    PriceBasis,
    efficiency,
    job_cost,
    load_prices,
    price_basis,
    run_cost,
    usd_per_million_calls,
)
from batchmark.estimate import Estimate, Interval
from batchmark.exceptions import BatchmarkError
from tests.unit.run_builders import (
    CPU_ENVIRONMENT,
    LAPTOP_ENVIRONMENT,
    build_job,
    build_row,
    build_run,
)

GPU = PriceBasis(instance_type="g5.xlarge", usd_per_hour=1.006, measured_on_it=True)
CPU = PriceBasis(instance_type="c5.2xlarge", usd_per_hour=0.34, measured_on_it=True)
UNPRICED = PriceBasis(instance_type="x9.huge", usd_per_hour=None, measured_on_it=True)
TEN = Estimate(value=10, interval=Interval(low=8, high=12))


def target_record(name, **fields):
    gpu = build_job("g5.xlarge", [build_row((0.1,))])
    pair = compare(build_run(gpu, build_job(name, [build_row((0.1,))], **fields))).pairs[0]
    return pair.cpu


@pytest.mark.parametrize(
    ("instance_type", "usd_per_hour"),
    [
        ("g4dn.xlarge", 0.526),
        ("g5.xlarge", 1.006),
        ("g5.8xlarge", 2.448),
        ("g5.12xlarge", 5.672),
        ("g6.xlarge", 0.8048),
        ("p3.2xlarge", 3.06),
        ("p3.16xlarge", 24.48),
        ("c5.2xlarge", 0.34),
        ("c5n.2xlarge", 0.432),
        ("m5.2xlarge", 0.384),
        ("r5.4xlarge", 1.008),
    ],
)
def test_committed_prices(instance_type, usd_per_hour):
    assert load_prices().usd_per_hour[instance_type] == usd_per_hour


def test_the_price_table_says_what_it_is():
    prices = load_prices()
    assert (prices.currency, prices.region) == ("USD", "us-east-1")
    assert (prices.operating_system, prices.purchase_option) == ("Linux", "On-Demand")
    assert prices.as_of > date(2026, 1, 1)
    assert prices.source
    assert prices.source_url.startswith("https://")


def test_efficiency_by_hand():
    """10 times faster at 2.959 times the price."""
    estimate = efficiency(TEN, GPU, CPU).estimate
    assert estimate.value == pytest.approx(10 * 0.34 / 1.006)
    assert estimate.value == pytest.approx(3.3797, abs=1e-4)
    assert estimate.interval.low == pytest.approx(2.7038, abs=1e-4)
    assert estimate.interval.high == pytest.approx(4.0557, abs=1e-4)


def test_efficiency_without_an_interval_keeps_the_reason():
    estimate = efficiency(Estimate(value=10, interval=None, interval_reason="1 sample"), GPU, CPU)
    assert estimate.estimate.interval is None
    assert estimate.estimate.interval_reason == "1 sample"


def test_efficiency_is_unknown_without_a_price_or_a_speedup():
    assert efficiency(TEN, UNPRICED, CPU).reason == "no price of x9.huge"
    assert efficiency(TEN, GPU, UNPRICED).estimate is None
    assert efficiency(None, GPU, CPU).reason == "the times are not compared"


def test_cost_of_a_million_calls_by_hand():
    """A million calls of 3.6 ms are one hour."""
    call = Estimate(value=0.0036, interval=Interval(low=0.0018, high=0.0072))
    cost = usd_per_million_calls(call, GPU)
    assert cost.value == pytest.approx(1.006)
    assert (cost.interval.low, cost.interval.high) == pytest.approx((0.503, 2.012))
    assert usd_per_million_calls(call, UNPRICED) is None


def test_cost_of_jobs_and_run_by_hand():
    job = target_record("c5.2xlarge", batch_seconds=90.0).jobs[0]
    cost = job_cost(job, "c5.2xlarge", CPU)
    assert cost.usd == pytest.approx(0.34 / 40)
    unpriced = job_cost(job, "x9.huge", UNPRICED)
    assert unpriced.usd is None
    assert unpriced.reason == "no price of x9.huge"

    laptop = target_record("c5.2xlarge", environment=LAPTOP_ENVIRONMENT)
    elsewhere = job_cost(laptop.jobs[0], "c5.2xlarge", price_basis(laptop, load_prices()))
    assert elsewhere.usd is None
    assert elsewhere.reason == "it did not run on c5.2xlarge"

    assert run_cost([cost, cost], 0).usd == pytest.approx(0.017)
    assert run_cost([cost, cost], 0).reason is None
    partly = run_cost([cost, unpriced], 2)
    assert partly.usd == pytest.approx(0.0085)
    assert partly.reason == "not in it: 1 of 2 jobs without a cost, 2 without a result"
    assert run_cost([unpriced], 0).usd is None


def test_a_price_applied_to_another_machine_is_pointed_out():
    prices = load_prices()
    at_home = price_basis(target_record("c5.2xlarge", environment=LAPTOP_ENVIRONMENT), prices)
    assert at_home.usd_per_hour == 0.34
    assert not at_home.measured_on_it
    assert "The price of c5.2xlarge was applied to time measured on a machine outside EC2" in (
        at_home.note
    )
    other = CPU_ENVIRONMENT.model_copy(update={"instance_type": "c5.4xlarge"})
    elsewhere = price_basis(target_record("c5.2xlarge", environment=other), prices)
    assert "was applied to time measured on c5.4xlarge" in elsewhere.note
    right = price_basis(target_record("c5.2xlarge"), prices)
    assert right.measured_on_it
    assert right.note is None


def test_an_instance_type_without_a_price_says_where_to_add_it():
    basis = price_basis(target_record("c99.huge"), load_prices())
    assert basis.usd_per_hour is None
    assert "No price of c99.huge" in basis.note
    assert "prices.json" in basis.note


@pytest.mark.parametrize("text", ["", "{}", '{"usd_per_hour": {"g5.xlarge": 0}}'])
def test_an_unusable_price_table_is_an_error(tmp_path, text):
    path = tmp_path / "prices.json"
    path.write_text(text)
    with pytest.raises(BatchmarkError, match=r"prices\.json can't be used"):
        load_prices(path)
    with pytest.raises(BatchmarkError, match=r"gone\.json can't be used"):
        load_prices(tmp_path / "gone.json")
