"""Price tables: what is committed, what AWS answers, what is said of old or foreign ones."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta

import pytest

from batchmark.exceptions import PriceError
from batchmark.prices import (
    STALE_DAYS,
    committed_prices,
    load_prices,
    on_demand_price,
    origin_of,
    spot_prices,
)
from tests.unit.price_answers import HOUR, offer

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


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
    assert load_prices().on_demand[instance_type] == usd_per_hour


def test_the_committed_table_says_what_it_is():
    prices = load_prices()
    assert (prices.currency, prices.region, prices.operating_system) == (
        "USD",
        "us-east-1",
        "Linux",
    )
    assert prices.as_of > date(2026, 1, 1)
    assert prices.source
    assert prices.source_url.startswith("https://")


@pytest.mark.parametrize("text", ["", "{}", '{"on_demand": {"g5.xlarge": 0}}'])
def test_an_unusable_price_table_is_an_error(tmp_path, text):
    path = tmp_path / "prices.json"
    path.write_text(text)
    with pytest.raises(PriceError, match=r"prices\.json can't be used"):
        load_prices(path)
    with pytest.raises(PriceError, match=r"gone\.json can't be used"):
        load_prices(tmp_path / "gone.json")


def test_the_committed_prices_stand_in_and_say_why():
    prices = committed_prices("us-east-1", "the Price List API is out of reach")
    assert prices.on_demand == load_prices().on_demand
    assert prices.notes == (
        "There are no prices of today: the Price List API is out of reach. The committed ones of "
        f"{prices.as_of} are used.",
    )


def test_prices_of_one_region_are_never_applied_to_another():
    prices = committed_prices("eu-west-1", "the Price List API is out of reach")
    assert (prices.region, prices.on_demand, prices.spot) == ("eu-west-1", {}, {})
    assert prices.notes == (
        "There are no prices of today: the Price List API is out of reach. The committed ones are "
        "of us-east-1 and say nothing about eu-west-1.",
    )


def test_age_and_staleness():
    prices = load_prices()
    day = datetime.combine(prices.as_of, datetime.min.time(), UTC)
    assert prices.age_days(day + timedelta(hours=23)) == 0
    last_good = day + timedelta(days=STALE_DAYS)
    assert prices.staleness(last_good) is None
    said = prices.staleness(last_good + timedelta(days=1))
    assert said.startswith(f"These prices are 31 days old (as of {prices.as_of})")
    assert "`make prices`" in said
    assert prices.only([]).staleness(last_good + timedelta(days=1)) is None


def test_only_some_instance_types_are_kept():
    kept = load_prices().only(["g5.xlarge", "c5.2xlarge", "x9.huge"])
    assert kept.on_demand == {"g5.xlarge": 1.006, "c5.2xlarge": 0.34}


def test_the_price_of_an_offer():
    assert on_demand_price([offer("g5.xlarge", "1.0060000000")]) == 1.006
    assert on_demand_price([offer("g5.xlarge", "1.006"), offer("g5.xlarge", "1.0060000000")]) == (
        1.006
    )


def test_no_offer_has_no_price():
    assert on_demand_price([]) is None
    assert on_demand_price([offer("g5.xlarge", "0.0000000000")]) is None
    without_terms = json.loads(offer("g5.xlarge", "1.006")) | {"terms": {"Reserved": {}}}
    assert on_demand_price([json.dumps(without_terms)]) is None
    assert on_demand_price([offer("g5.xlarge", "1.006", unit="Quantity")]) is None


def test_two_prices_are_not_chosen_between():
    with pytest.raises(PriceError, match=r"several prices are listed: 1\.006, 1\.2"):
        on_demand_price([offer("g5.xlarge", "1.2"), offer("g5.xlarge", "1.006")])


@pytest.mark.parametrize(
    "text", ["no json", "[]", "{}", '{"terms": {"OnDemand": {"a": {}}}}', '{"terms": null}']
)
def test_an_offer_of_another_shape_is_an_error(text):
    with pytest.raises(PriceError, match="an offer has another shape than known here"):
        on_demand_price([text])


def test_an_offer_is_awss_unless_it_says_otherwise():
    today = date(2026, 11, 20)
    aws = origin_of(offer("g5.xlarge", "1.006"), today)
    assert (aws["source"], aws["as_of"]) == ("AWS Price List API", today)
    stand_in = json.loads(offer("g5.xlarge", "1.006"))
    stand_in["origin"] = {"source": "a stand-in", "source_url": None, "as_of": "2026-02-09"}
    assert origin_of(json.dumps(stand_in), today) == stand_in["origin"]


def spot_entry(zone, price, changed, instance_type="g5.xlarge"):
    return {
        "AvailabilityZone": zone,
        "InstanceType": instance_type,
        "ProductDescription": "Linux/UNIX",
        "SpotPrice": price,
        "Timestamp": changed,
    }


def test_spot_is_the_median_over_zones_of_each_ones_latest_price():
    history = [
        spot_entry("us-east-1a", "0.400000", NOON - HOUR),
        spot_entry("us-east-1a", "0.900000", NOON - 3 * HOUR),
        spot_entry("us-east-1b", "0.500000", NOON - 9 * HOUR),
        spot_entry("us-east-1c", "0.700000", NOON - 2 * HOUR),
        spot_entry("us-east-1a", "0.110000", NOON, "c5.2xlarge"),
    ]
    prices = spot_prices(history)
    assert prices == spot_prices(reversed(history))
    gpu = prices["g5.xlarge"]
    assert gpu.zones == {"us-east-1a": 0.4, "us-east-1b": 0.5, "us-east-1c": 0.7}
    assert gpu.usd_per_hour == 0.5
    assert (gpu.lowest_usd_per_hour, gpu.highest_usd_per_hour) == (0.4, 0.7)
    assert gpu.observed_at == NOON - HOUR
    assert prices["c5.2xlarge"].usd_per_hour == 0.11
    assert spot_prices([]) == {}
