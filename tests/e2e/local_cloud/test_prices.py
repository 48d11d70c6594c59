"""Prices from the local cloud come from its file, and are never called AWS's."""

from datetime import UTC, date, datetime

import pytest
from botocore.exceptions import ClientError

from batchmark.aws.price_list import fetch_prices
from batchmark.core.prices import PRICES_FILE, load_prices
from local_cloud.prices import read_prices

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def fetched(cloud, *instance_types, region="us-east-1"):
    return fetch_prices(
        cloud.client("pricing"),
        cloud.client("ec2"),
        region=region,
        instance_types=instance_types,
        now=NOW,
    )


def test_prices_come_from_the_file_and_name_it(strict_cloud):
    committed = load_prices()
    prices = fetched(strict_cloud, "g5.xlarge", "c5.2xlarge", "x9.huge")
    assert prices.on_demand == {"g5.xlarge": 1.006, "c5.2xlarge": 0.34}
    assert prices.source == f"the local cloud's price file, not AWS today: {committed.source}"
    assert prices.source_url == committed.source_url
    assert prices.as_of == committed.as_of
    assert prices.notes == ()
    assert prices.type_notes == {
        "x9.huge": "AWS lists no On-Demand price for x9.huge in us-east-1."
    }
    assert set(prices.spot) == {"g5.xlarge"}
    spot = prices.spot["g5.xlarge"]
    assert spot.zones == {"us-east-1a": 0.4, "us-east-1b": 0.5, "us-east-1c": 0.75}
    assert spot.changed_at == datetime.fromisoformat("2026-11-19T08:00:00Z")

    pricing, ec2 = strict_cloud.client("pricing"), strict_cloud.client("ec2")
    elsewhere = [{"Type": "TERM_MATCH", "Field": "regionCode", "Value": "eu-west-1"}]
    for request in (
        {"ServiceCode": "AmazonEC2", "Filters": elsewhere},
        {"ServiceCode": "AmazonS3"},
    ):
        assert pricing.get_products(**request)["PriceList"] == []
    with pytest.raises(ClientError, match="does not support filters of type CONTAINS"):
        pricing.get_products(
            ServiceCode="AmazonEC2",
            Filters=[{"Type": "CONTAINS", "Field": "regionCode", "Value": "eu"}],
        )
    windows = ec2.describe_spot_price_history(ProductDescriptions=["Windows"])
    assert windows["SpotPriceHistory"] == []
    assert len(ec2.describe_spot_price_history()["SpotPriceHistory"]) == 3


def test_without_a_file_there_are_no_prices(cloud):
    products = cloud.client("pricing").get_products(ServiceCode="AmazonEC2")
    assert products["PriceList"] == []
    history = cloud.client("ec2").describe_spot_price_history(InstanceTypes=["g5.xlarge"])
    assert history["SpotPriceHistory"] == []


def test_the_committed_table_is_a_price_file(strict_cloud):
    known = load_prices().on_demand
    assert read_prices(PRICES_FILE).on_demand == known
    some = dict(list(known.items())[:: len(known) // 20])
    prices = fetched(strict_cloud, *some)
    assert prices.on_demand == some
    assert prices.as_of > date(2026, 1, 1)
    spot = {found["InstanceType"] for found in read_prices(PRICES_FILE).spot_history}
    assert spot == set(load_prices().spot)
