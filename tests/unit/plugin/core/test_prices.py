"""Price tables: what is committed, what AWS answers, what is said of old or foreign ones."""

import json
from collections import Counter
from datetime import UTC, date, datetime, timedelta

import pytest

from batchmark.aws.instance_families import family_of, instance_families
from batchmark.core import prices as prices_module
from batchmark.core.errors import PriceError
from batchmark.core.prices import (
    PRICES_FILE,
    STALE_DAYS,
    SpotPrice,
    committed_prices,
    load_prices,
    on_demand_price,
    origin_of,
    price_file,
    spot_prices,
)
from tests.builders.runs import PRICES
from tests.stand_ins.price_answers import HOUR, offer, spot_offer

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
TABLE = PRICES.model_copy(
    update={"spot": {"g5.xlarge": SpotPrice(zones={"us-east-1a": 0.4}, changed_at=NOON)}}
)


@pytest.mark.parametrize(
    "path", sorted(PRICES_FILE.parent.glob("prices.*.json")), ids=lambda path: path.name
)
def test_a_committed_table_says_what_it_is(path):
    prices = load_prices(path)
    assert path == price_file(prices.region)
    assert prices.as_of > date(2026, 1, 1)
    assert prices.source
    assert prices.source_url.startswith("https://")
    assert prices.on_demand


def test_every_gpu_family_that_terraform_takes_has_a_price_or_a_note():
    """Of the default table, which the docs and the laptop use."""
    prices = load_prices()
    known = {family_of(name) for name in (*prices.on_demand, *prices.type_notes)}
    families = instance_families().gpu_families
    taken = {name for name, family in families.items() if family.refused is None}
    assert taken <= known
    sizes = Counter(map(family_of, prices.on_demand))
    assert min(sizes[name] for name in ("g4dn", "g5", "g6", "g6e", "g7e")) >= 6
    assert {"c5", "c6i", "c7i", "c8i", "c8a", "m5", "m8i", "r8i"} <= known


@pytest.mark.parametrize("text", ["", "{}", '{"on_demand": {"g5.xlarge": 0}}'])
def test_an_unusable_price_table_is_an_error(tmp_path, text):
    path = tmp_path / "prices.json"
    path.write_text(text)
    with pytest.raises(PriceError, match=r"prices\.json can't be used"):
        load_prices(path)
    with pytest.raises(PriceError, match=r"gone\.json can't be used"):
        load_prices(tmp_path / "gone.json")


def test_each_region_has_a_table_of_its_own_without_old_spot_prices(tmp_path, monkeypatch):
    prices = committed_prices("nowhere-1", "no answer", NOON)
    assert (prices.region, prices.on_demand, prices.spot) == ("nowhere-1", {}, {})
    note = (
        "Current prices are unavailable: no answer. The committed prices are for "
        f"{load_prices().region} and don't apply to nowhere-1."
    )
    assert prices.notes == (note,)
    monkeypatch.setattr(prices_module, "price_file", lambda region: tmp_path / region)
    there = TABLE.model_copy(update={"region": "eu-west-1"})
    (tmp_path / "eu-west-1").write_text(there.model_dump_json())
    prices = committed_prices("eu-west-1", "no answer", NOON + timedelta(days=20))
    assert (prices.on_demand, prices.spot) == (TABLE.on_demand, {})
    assert len(prices.notes) == 2


@pytest.mark.parametrize(("days", "spot"), [(0, TABLE.spot), (1, TABLE.spot), (2, {})])
def test_committed_spot_prices_are_used_for_a_day(days, spot):
    prices = TABLE.without_old_spot(NOON + timedelta(days=days))
    assert prices.spot == spot
    assert prices.on_demand == TABLE.on_demand
    told = () if spot else ("The committed Spot prices from 2026-11-20 are too old to use.",)
    assert prices.notes == told


def test_age_and_staleness_and_what_is_kept_of_some_instance_types():
    day = datetime.combine(TABLE.as_of, datetime.min.time(), UTC)
    assert TABLE.age_days(day + timedelta(hours=23)) == 0
    last_good = day + timedelta(days=STALE_DAYS)
    assert TABLE.staleness(last_good) is None
    said = TABLE.staleness(last_good + timedelta(days=1))
    assert said.startswith("These prices are 31 days old (from 2026-11-20)")
    assert "`make prices`" in said
    assert TABLE.only([]).staleness(last_good + timedelta(days=1)) is None
    types = {"g6.xlarge": "No price of g6.", "x9.huge": "No price of x9."}
    table = TABLE.model_copy(update={"notes": ("Of all.",), "type_notes": types})
    kept = table.only(["g5.xlarge", "x9.huge"])
    assert kept.on_demand == {"g5.xlarge": 1.006}
    assert set(kept.spot) == {"g5.xlarge"}
    assert kept.all_notes == ("Of all.", "No price of x9.")


def g5(price, **changes):
    return offer("g5.xlarge", price, **changes)


@pytest.mark.parametrize(
    ("offers", "price"),
    [
        ([g5("1.006"), g5("1.0060000000")], 1.006),
        ([], None),
        ([g5("0.0000000000")], None),
        ([json.dumps(json.loads(g5("1.006")) | {"terms": {"Reserved": {}}})], None),
        ([g5("1.006", unit="Quantity")], None),
    ],
)
def test_the_price_of_offers(offers, price):
    assert on_demand_price(offers) == price


@pytest.mark.parametrize(
    "text", ["no json", "[]", "{}", '{"terms": {"OnDemand": {"a": {}}}}', '{"terms": null}']
)
def test_an_offer_of_another_shape_is_an_error(text):
    with pytest.raises(PriceError, match="an offer has an unknown format"):
        on_demand_price([text])


def test_an_offer_is_awss_unless_it_says_otherwise():
    today = date(2026, 11, 20)
    aws = origin_of(g5("1.006"), today)
    assert (aws["source"], aws["as_of"]) == ("AWS Price List API", today)
    stand_in = json.loads(g5("1.006"))
    stand_in["origin"] = {"source": "a stand-in", "source_url": None, "as_of": "2026-02-09"}
    assert origin_of(json.dumps(stand_in), today) == stand_in["origin"]
    assert origin_of(None, today) == aws


def test_spot_is_the_median_over_zones_of_each_ones_latest_price():
    history = [
        spot_offer("a", "0.400000", NOON - HOUR),
        spot_offer("a", "0.900000", NOON - 3 * HOUR),
        spot_offer("b", "0.500000", NOON - 9 * HOUR),
        spot_offer("c", "0.700000", NOON - 2 * HOUR),
        spot_offer("a", "0.110000", NOON, "c5.2xlarge"),
    ]
    prices = spot_prices(history)
    assert prices == spot_prices(reversed(history))
    gpu = prices["g5.xlarge"]
    assert gpu.zones == {"us-east-1a": 0.4, "us-east-1b": 0.5, "us-east-1c": 0.7}
    assert gpu.usd_per_hour == 0.5
    assert [gpu.in_zone(zone) for zone in ("us-east-1c", "us-east-1f", None)] == [0.7, None, None]
    assert (gpu.lowest_usd_per_hour, gpu.highest_usd_per_hour) == (0.4, 0.7)
    assert gpu.changed_at == NOON - HOUR
    assert prices["c5.2xlarge"].usd_per_hour == 0.11
    assert spot_prices([]) == {}
