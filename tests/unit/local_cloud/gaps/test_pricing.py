"""Prices from the local cloud come from its file, and are never called AWS's."""

import json
from datetime import UTC, date, datetime

import pytest
from botocore.exceptions import ClientError
from moto.ec2.responses.spot_instances import SpotInstances
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

from batchmark.aws.price_list import fetch_prices
from batchmark.core.prices import PRICES_FILE, load_prices
from local_cloud.gaps import ec2
from local_cloud.gaps.pricing import PriceList
from local_cloud.prices import read_prices
from tests.unit.local_cloud.conftest import clients_of, over_http

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
ZONES = {"us-east-1a": 0.4, "us-east-1b": 0.5, "us-east-1c": 0.75}
CHANGED_AT = "2026-11-19T08:00:00Z"


@pytest.fixture
def client(tmp_path, monkeypatch):
    """Clients of a server with the committed prices, and Spot prices of one type."""
    table = json.loads(PRICES_FILE.read_text())
    table["spot"] = {"g5.xlarge": {"zones": ZONES, "changed_at": CHANGED_AT}}
    (tmp_path / "prices.json").write_text(json.dumps(table))
    prices = read_prices(tmp_path / "prices.json")
    own = SpotInstances.describe_spot_price_history
    monkeypatch.setattr(SpotInstances, "describe_spot_price_history", own)
    ec2.answer_spot_prices(prices)
    app = PriceList(DomainDispatcherApplication(create_backend_app), prices)
    with over_http(app) as url, clients_of(url, "any") as make:
        yield make


def test_prices_come_from_the_file_and_name_it(client):
    committed = load_prices()
    some = [*list(committed.on_demand)[:: len(committed.on_demand) // 20], "g5.xlarge"]
    prices = fetch_prices(
        client("pricing"),
        client("ec2"),
        region="us-east-1",
        instance_types=[*some, "x9.huge"],
        now=NOW,
    )
    assert prices.on_demand == {name: committed.on_demand[name] for name in some}
    assert prices.source == f"the local cloud's price file, not AWS today: {committed.source}"
    assert (prices.source_url, prices.as_of) == (committed.source_url, committed.as_of)
    assert prices.notes == ()
    assert prices.type_notes == {
        "x9.huge": "AWS lists no On-Demand price for x9.huge in us-east-1."
    }
    assert set(prices.spot) == {"g5.xlarge"}
    spot = prices.spot["g5.xlarge"]
    assert (spot.zones, spot.changed_at) == (ZONES, datetime.fromisoformat(CHANGED_AT))


def test_what_the_file_does_not_have_has_no_price(client):
    pricing = client("pricing")

    def offers(kind="TERM_MATCH", service="AmazonEC2"):
        elsewhere = [{"Type": kind, "Field": "regionCode", "Value": "eu-west-1"}]
        return pricing.get_products(ServiceCode=service, Filters=elsewhere)["PriceList"]

    assert offers() == offers(service="AmazonS3") == []
    with pytest.raises(ClientError, match="does not support filters of type CONTAINS"):
        offers("CONTAINS")
    describe = client("ec2").describe_spot_price_history
    assert describe(ProductDescriptions=["Windows"])["SpotPriceHistory"] == []
    assert len(describe()["SpotPriceHistory"]) == len(ZONES)
    ec2.answer_spot_prices(None)
    assert describe()["SpotPriceHistory"] == []


def test_the_committed_table_is_a_price_file():
    prices, committed = read_prices(PRICES_FILE), load_prices()
    assert prices.on_demand == committed.on_demand
    assert prices.as_of > date(2026, 1, 1)
    assert {found["InstanceType"] for found in prices.spot_history} == set(committed.spot)
