"""A file of AWS's price list, in its own format: the columns are those of AmazonEC2's CSV."""

import gzip
from datetime import date

import pytest

from batchmark.aws.offer_file import prices_of_file
from batchmark.core.errors import PriceError
from tests.stand_ins.price_answers import LIST_HEAD, LISTED, price_list


def named(instance_type, price, **changes):
    return {"Instance Type": instance_type, "PricePerUnit": price} | changes


@pytest.fixture
def read(tmp_path):
    def of(content, *instance_types, region="us-east-1", name="index.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return prices_of_file(path, region=region, instance_types=instance_types)

    return of


def test_all_sizes_of_the_families_asked_for_and_of_the_gpu_families(read):
    text = price_list(
        {},
        named("c5.2xlarge", "0.3400000000"),
        named("c5.18xlarge", "3.0600000000"),
        named("m9g.large", "0.1"),
        named("p3.2xlarge", "3.06"),
        named("g6e.xlarge", "1.861"),
    )
    prices = read(text, "c5.2xlarge", "r5.4xlarge")
    of_c5, of_gpus = {"c5.18xlarge": 3.06, "c5.2xlarge": 0.34}, {"g5.xlarge": 1.006}
    assert prices.on_demand == of_c5 | of_gpus | {"g6e.xlarge": 1.861}
    note = "The file lists no On-Demand price for r5.4xlarge in us-east-1."
    assert prices.type_notes == {"r5.4xlarge": note}
    assert (prices.as_of, prices.region, prices.spot) == (date(2026, 11, 20), "us-east-1", {})
    assert prices.source == "AWS's price list of AmazonEC2, version 20261120225308"
    assert prices.source_url == (
        "https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonEC2/20261120225308/"
        "us-east-1/index.csv"
    )


@pytest.mark.parametrize(
    "other",
    [
        {"TermType": "Reserved"},
        {"Unit": "Quantity"},
        {"Location Type": "AWS Local Zone"},
        {"Tenancy": "Dedicated"},
        {"Operating System": "Windows"},
        {"CapacityStatus": "UnusedCapacityReservation"},
        {"MarketOption": "CapacityBlock"},
        {"Pre Installed S/W": "SQL Web"},
        {"Region Code": "eu-west-1"},
        {"Currency": "CNY"},
        {"PricePerUnit": "0.0000000000"},
    ],
)
def test_other_offers_of_the_same_type_are_left_out(read, other):
    text = price_list({"PricePerUnit": "9.9"} | other, {}, {"PricePerUnit": "8.8"} | other)
    assert read(text).on_demand == {"g5.xlarge": 1.006}


def test_a_type_with_several_prices_has_none_and_a_list_may_be_gzipped(read):
    assert read(gzip.compress(price_list({}).encode())).on_demand == {"g5.xlarge": 1.006}
    prices = read(price_list({}, {"PricePerUnit": "1.1"}, named("g6.xlarge", "0.8")))
    assert prices.on_demand == {"g6.xlarge": 0.8}
    assert prices.type_notes == {
        "g5.xlarge": "The On-Demand price for g5.xlarge is unknown because the file lists several "
        "(1.006, 1.1)."
    }


NO_LIST = "is not a CSV price list for"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{\n  "formatVersion" : "v1.0",\n  "offerCode" : "AmazonEC2"\n}', NO_LIST),
        ("", NO_LIST),
        (price_list({}, above=LIST_HEAD | {"OfferCode": "AmazonRDS"}), NO_LIST),
        (price_list({}, columns=tuple(LISTED)[:-1]), NO_LIST),
        (price_list({"Region Code": "eu-west-1"}), "contains no On-Demand price for us-east-1"),
    ],
)
def test_another_file_is_refused_with_the_way_to_the_right_one(read, content, said):
    with pytest.raises(PriceError) as refused:
        read(content)
    assert str(refused.value).startswith(f"index.csv {said}")
    assert "`curl -O https://pricing.us-east-1.amazonaws.com/" in str(refused.value)
    assert "/AmazonEC2/current/us-east-1/index.csv`" in str(refused.value)


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(price_list({}).encode())[:-9],
        gzip.compress(price_list({}).encode())[:12] + bytes(40),
        b"\xff\xfe\x00",
        price_list({"PricePerUnit": "free"}),
        price_list({}, above=LIST_HEAD | {"Publication Date": "lately"}),
    ],
    ids=["cut gzip", "garbage behind a gzip's head", "no text", "no price", "no date"],
)
def test_a_damaged_or_missing_file_is_named(read, tmp_path, content):
    with pytest.raises(PriceError, match=r"^index\.csv can't be read: "):
        read(content)
    with pytest.raises(PriceError, match=r"^gone\.csv can't be read: .*No such file"):
        prices_of_file(tmp_path / "gone.csv", region="us-east-1", instance_types=())
