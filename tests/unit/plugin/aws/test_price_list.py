"""Prices asked of AWS, by botocore's stubber, or read from a file in its price list's format."""

import gzip
from datetime import UTC, date, datetime

import pytest

from batchmark.aws import price_list
from batchmark.aws.offer_file import prices_of_file
from batchmark.aws.price_list import current_prices, fetch_prices, stored_prices
from batchmark.aws.result_bucket import RunStore
from batchmark.core.errors import PriceError
from batchmark.core.prices import load_prices
from tests.builders.runs import PRICES
from tests.documented import arguments, recipe, the_command
from tests.stand_ins.bucket import MemoryBucket
from tests.stand_ins.price_answers import HOUR, LIST_HEAD, LISTED, offer, spot_offer
from tests.stand_ins.price_answers import price_list as listing
from tests.stand_ins.stubbed_clients import StubbedClients

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
SPOT = [
    spot_offer(zone, price, NOW - HOUR)
    for zone, price in (("a", "0.4"), ("b", "0.5"), ("c", "0.6"))
]


FILTERS = {
    "locationType": "AWS Region",
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}


class Aws(StubbedClients):
    """Each method adds what AWS answers next, and what it has to be asked."""

    def offers(self, instance_type, *pages, region="us-east-1"):
        wanted = FILTERS | {"instanceType": instance_type, "regionCode": region}
        filters = [{"Type": "TERM_MATCH", "Field": name, "Value": wanted[name]} for name in wanted]
        asked = {"ServiceCode": "AmazonEC2", "FormatVersion": "aws_v1", "Filters": filters}
        answers = [{"FormatVersion": "aws_v1", "PriceList": page} for page in pages or [[]]]
        self.answer_pages("pricing", "get_products", answers, asked)

    def spot(self, instance_types, *pages):
        asked = {"InstanceTypes": instance_types, "ProductDescriptions": ["Linux/UNIX"]}
        asked |= {"StartTime": NOW - 3 * HOUR, "EndTime": NOW}
        answers = [{"SpotPriceHistory": page} for page in pages]
        self.answer_pages("ec2", "describe_spot_price_history", answers, asked)

    def fetch(self, *instance_types, region="us-east-1", ask=fetch_prices):
        clients = self("pricing"), self("ec2")
        return ask(*clients, region=region, instance_types=instance_types, now=NOW)

    def store(self, *instance_types, store):
        prices = self.fetch(*instance_types, ask=current_prices)
        prices.store(store)
        return prices.table


@pytest.fixture
def aws():
    return Aws("us-east-1")


@pytest.fixture
def store():
    return RunStore(MemoryBucket("results", "us-east-1"), "results", "run")


def test_on_demand_and_spot_over_several_pages(aws):
    aws.offers("c5.2xlarge", [], [offer("c5.2xlarge", "0.3400000000")])
    aws.offers("g5.xlarge", [offer("g5.xlarge", "1.0060000000")])
    aws.spot(["c5.2xlarge", "g5.xlarge"], SPOT[:1], SPOT[1:])
    prices = aws.fetch("g5.xlarge", "c5.2xlarge", "g5.xlarge")
    assert prices.on_demand == {"c5.2xlarge": 0.34, "g5.xlarge": 1.006}
    assert prices.spot["g5.xlarge"].usd_per_hour == 0.5
    zones = prices.spot["g5.xlarge"].zones
    assert zones == {"us-east-1a": 0.4, "us-east-1b": 0.5, "us-east-1c": 0.6}
    assert (prices.region, prices.source) == ("us-east-1", "AWS Price List API")
    assert prices.as_of == date(2026, 11, 20)
    assert prices.notes == ()
    aws.assert_all_was_asked()


def test_what_is_not_sold_in_the_region_is_named_and_the_rest_is_there(aws):
    aws.offers("c5.2xlarge", [offer("c5.2xlarge", "0.384")], region="eu-west-1")
    aws.offers("g6.xlarge", region="eu-west-1")
    several = [offer("m5.2xlarge", price) for price in ("0.5", "0.4")]
    aws.offers("m5.2xlarge", several, region="eu-west-1")
    aws.spot(["c5.2xlarge", "g6.xlarge", "m5.2xlarge"], [])
    prices = aws.fetch("g6.xlarge", "c5.2xlarge", "m5.2xlarge", region="eu-west-1")
    assert prices.on_demand == {"c5.2xlarge": 0.384}
    assert prices.notes == ()
    assert prices.type_notes == {
        "g6.xlarge": "AWS lists no On-Demand price for g6.xlarge in eu-west-1.",
        "m5.2xlarge": "No On-Demand price for m5.2xlarge: AWS lists several prices: 0.4, 0.5.",
    }


def test_either_prices_stand_alone_and_without_any_there_is_no_table(aws):
    aws.offers("g5.xlarge", [offer("g5.xlarge", "1.006")])
    aws.refuse("ec2", "describe_spot_price_history", "UnauthorizedOperation", "You may not.")
    prices = aws.fetch("g5.xlarge")
    assert (prices.on_demand, prices.spot) == ({"g5.xlarge": 1.006}, {})
    (note,) = prices.notes
    assert note.startswith("Spot prices are missing: An error occurred (UnauthorizedOperation) ")
    for pages in ([SPOT], [[]]):
        aws.offers("g5.xlarge")
        aws.spot(["g5.xlarge"], *pages)
    prices = aws.fetch("g5.xlarge")
    assert (prices.on_demand, prices.spot["g5.xlarge"].usd_per_hour) == ({}, 0.5)
    note = "AWS lists no On-Demand price for g5.xlarge in us-east-1."
    assert prices.type_notes == {"g5.xlarge": note}
    assert (prices.source, prices.as_of) == ("AWS Price List API", NOW.date())
    with pytest.raises(PriceError, match=note):
        aws.fetch("g5.xlarge")
    with pytest.raises(PriceError, match="no instance type was specified"):
        aws.fetch()


def test_a_run_gets_the_committed_prices_and_the_reason_and_its_report_reads_them(aws, store):
    aws.refuse("pricing", "get_products", "ThrottlingException", "Rate exceeded")
    committed = load_prices()
    note = (
        "Current prices are unavailable: An error occurred (ThrottlingException) when calling the "
        f"GetProducts operation: Rate exceeded. Using the committed prices from {committed.as_of}."
    )
    expected = committed.model_copy(update={"notes": (note,)}).without_old_spot(NOW)
    assert aws.store("g5.xlarge", store=store) == expected
    assert store.keys("") == ["runs/run/prices.json"]
    assert store.read("runs/run/prices.json") == expected.model_dump_json(indent=2).encode()
    store.write("prices.json", PRICES.model_dump_json())
    assert stored_prices(store, "us-east-1", NOW) == PRICES
    (note, *_) = stored_prices(store.of_run("another"), "us-east-1", NOW).notes
    assert note.startswith("Current prices are unavailable: the task plan_jobs stored none.")


def test_todays_prices_are_kept_in_the_runs_folder_and_by_their_date_for_each_run(aws):
    for _ in range(2):
        aws.offers("g5.xlarge", [offer("g5.xlarge", "1.006")])
        aws.spot(["g5.xlarge"], SPOT)
    text = aws.fetch("g5.xlarge").model_dump_json(indent=2).encode()
    for key in ("prices/us-east-1/2026-11-20/run.json", "runs/run/prices.json"):
        asked = {"Bucket": "results", "Key": key, "Body": text}
        asked |= {"ContentType": "application/json; charset=utf-8"}
        aws.answer("s3", "put_object", {}, asked)
    aws.store("g5.xlarge", store=RunStore(aws("s3"), "results", "run"))
    aws.assert_all_was_asked()


@pytest.fixture
def committed(aws, tmp_path, monkeypatch):
    """Committed tables of the test's own, one of us-east-1; `make prices` asks `aws`."""

    def file(region):
        return tmp_path / f"prices.{region}.json"

    file("us-east-1").write_text(PRICES.model_dump_json())
    monkeypatch.setattr(price_list, "price_file", file)
    monkeypatch.setattr(price_list, "price_clients", lambda _: (aws("pricing"), aws("ec2")))
    monkeypatch.setattr(price_list, "PRICES_FILE", file("us-east-1"))
    return file


def given(command):
    """What the program is given, as make calls it."""
    _, module, *options = arguments(recipe(command).splitlines()[-1])
    assert module == "batchmark.aws.price_list"
    return options


def test_make_prices_rewrites_the_table(aws, committed, capsys):
    for name in sorted({*PRICES.on_demand, "g6e.xlarge"}):
        aws.offers(name, [] if name == "g6.xlarge" else [offer(name, "2.5")])
    aws.answer("ec2", "describe_spot_price_history", {"SpotPriceHistory": SPOT})
    assert given(the_command("make prices TYPES=")) == ["TYPE"]
    assert price_list.main(["g6e.xlarge"]) == 0
    prices = load_prices(committed("us-east-1"))
    sold = ["c5.2xlarge", "g4dn.xlarge", "g5.xlarge", "g6e.xlarge"]
    assert prices.on_demand == dict.fromkeys(sold, 2.5)
    assert prices.spot["g5.xlarge"].usd_per_hour == 0.5
    said = capsys.readouterr().out
    assert "AWS lists no On-Demand price for g6.xlarge in us-east-1." in said
    assert "prices.us-east-1.json: 4 On-Demand and 1 Spot prices for us-east-1" in said
    # Prices of another region get a table of their own.
    for name in sorted({*sold, "g6.xlarge"}):
        aws.offers(name, [offer(name, "2.5")], region="eu-west-1")
    aws.answer("ec2", "describe_spot_price_history", {"SpotPriceHistory": []})
    assert price_list.main(given(the_command("make prices REGION="))) == 0
    assert load_prices(committed("us-east-1")) == prices
    assert load_prices(committed("eu-west-1")).region == "eu-west-1"


def test_make_prices_from_a_file_asks_nothing_of_aws(committed, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(price_list, "price_clients", None)
    command = the_command("make prices FROM=")
    *_, name = options = given(command)
    assert options == ["--region", "eu-west-1", "--from", "index.csv"]
    monkeypatch.chdir(tmp_path)
    offers = [{"Instance Type": name, "Region Code": "eu-west-1"} for name in PRICES.on_demand]
    (tmp_path / name).write_text(listing(*offers))
    assert price_list.main(options) == 0
    table = load_prices(committed("eu-west-1"))
    assert table.on_demand == dict.fromkeys(sorted(PRICES.on_demand), 1.006)
    said = capsys.readouterr().out
    assert "4 On-Demand and 0 Spot prices for eu-west-1, dated 2026-11-20" in said

    (tmp_path / name).write_text("{")
    assert price_list.main(options) == 1
    assert capsys.readouterr().err.endswith("; prices.eu-west-1.json is unchanged\n")
    assert load_prices(committed("eu-west-1")) == table


def test_make_prices_leaves_the_table_if_aws_refuses_or_has_no_such_region(aws, committed, capsys):
    aws.refuse("pricing", "get_products", "ExpiredTokenException", "The token has expired.")
    path = committed("us-east-1").with_name("prices.json")
    path.write_text("as it was")
    assert price_list.main(["--file", str(path)]) == 1
    assert path.read_text() == "as it was"
    assert capsys.readouterr().err == (
        "prices: An error occurred (ExpiredTokenException) when calling the GetProducts operation: "
        "The token has expired; prices.json is unchanged\n"
    )
    assert price_list.main(["--region", "eu-wst-1"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("prices: 'eu-wst-1' is not a region that boto3 knows; choose one of ")
    assert "eu-west-1" in said
    assert said.count("\n") == 1


def test_the_price_list_is_asked_where_it_is(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    pricing, ec2 = price_list.price_clients("eu-west-1")
    assert pricing.meta.region_name == "us-east-1"
    assert ec2.meta.region_name == "eu-west-1"
    pricing.close()
    ec2.close()


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
    text = listing(
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
    text = listing({"PricePerUnit": "9.9"} | other, {}, {"PricePerUnit": "8.8"} | other)
    assert read(text).on_demand == {"g5.xlarge": 1.006}


def test_a_type_with_several_prices_has_none_and_a_list_may_be_gzipped(read):
    assert read(gzip.compress(listing({}).encode())).on_demand == {"g5.xlarge": 1.006}
    prices = read(listing({}, {"PricePerUnit": "1.1"}, named("g6.xlarge", "0.8")))
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
        (listing({}, above=LIST_HEAD | {"OfferCode": "AmazonRDS"}), NO_LIST),
        (listing({}, columns=tuple(LISTED)[:-1]), NO_LIST),
        (listing({"Region Code": "eu-west-1"}), "contains no On-Demand price for us-east-1"),
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
        gzip.compress(listing({}).encode())[:-9],
        gzip.compress(listing({}).encode())[:12] + bytes(40),
        b"\xff\xfe\x00",
        listing({"PricePerUnit": "free"}),
        listing({}, above=LIST_HEAD | {"Publication Date": "lately"}),
    ],
    ids=["cut gzip", "garbage behind a gzip's head", "no text", "no price", "no date"],
)
def test_a_damaged_or_missing_file_is_named(read, tmp_path, content):
    with pytest.raises(PriceError, match=r"^index\.csv can't be read: "):
        read(content)
    with pytest.raises(PriceError, match=r"^gone\.csv can't be read: .*No such file"):
        prices_of_file(tmp_path / "gone.csv", region="us-east-1", instance_types=())
