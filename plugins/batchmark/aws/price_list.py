"""Fetches current instance prices and, as a program, updates the committed table (`make prices`).

On-Demand prices come from the Price List API or AWS's price list file, Spot prices from EC2's price
history.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import boto3
from botocore.config import Config as ClientConfig
from botocore.exceptions import BotoCoreError, ClientError

from batchmark.aws.boto_clients import all_pages, client
from batchmark.aws.offer_file import PLAIN_LINUX, prices_of_file
from batchmark.aws.result_bucket import PRICES, PRICES_FOLDER, RunStore
from batchmark.core.errors import PriceError
from batchmark.core.output import Parser, say
from batchmark.core.prices import (
    PRICES_FILE,
    PriceTable,
    SpotPrice,
    committed_prices,
    load_prices,
    on_demand_price,
    origin_of,
    price_file,
    spot_prices,
)

# The Price List API has endpoints in few regions; each answers for all regions.
PRICE_LIST_REGION = "us-east-1"
# EC2 includes the last change before it, so every zone with a price returns one.
SPOT_HISTORY = timedelta(hours=3)
CLIENT_CONFIG = ClientConfig(
    connect_timeout=5, read_timeout=20, retries={"mode": "standard", "total_max_attempts": 4}
)


def price_clients(region: str) -> tuple[Any, Any]:
    """Create clients for the Price List API and for EC2 in the region."""
    return (
        client("pricing", PRICE_LIST_REGION, CLIENT_CONFIG),
        client("ec2", region, CLIENT_CONFIG),
    )


def fetch_prices(
    pricing: Any, ec2: Any, *, region: str, instance_types: Iterable[str], now: datetime
) -> PriceTable:
    """Fetch these types' current prices; the table's notes name those without an On-Demand price.

    Raises:
        PriceError: no types were given, or AWS lists no price for any of them.
        BotoCoreError, ClientError: the Price List API did not respond or denied access.
    """
    names = sorted(set(instance_types))
    if not names:
        raise PriceError("no instance type was specified")
    on_demand: dict[str, float] = {}
    an_offer: str | None = None
    type_notes: dict[str, str] = {}
    notes: list[str] = []
    for name in names:
        offers = _offers(pricing, region, name)
        try:
            price = on_demand_price(offers)
        except PriceError as error:
            type_notes[name] = f"No On-Demand price for {name}: {error}."
            continue
        if price is None:
            type_notes[name] = f"AWS lists no On-Demand price for {name} in {region}."
            continue
        on_demand[name] = price
        an_offer = an_offer or offers[0]
    spot: dict[str, SpotPrice] = {}
    try:
        spot = spot_prices(_spot_history(ec2, names, now))
    except (BotoCoreError, ClientError) as error:
        notes.append(f"Spot prices are missing: {_clause(error)}.")
    if not (on_demand or spot):
        raise PriceError(" ".join((*type_notes.values(), *notes)))
    return PriceTable(
        region=region,
        on_demand=on_demand,
        spot=spot,
        notes=tuple(notes),
        type_notes=type_notes,
        **origin_of(an_offer, now.astimezone(UTC).date()),
    )


class RunPrices(NamedTuple):
    """A run's prices, and whether AWS supplied them when the run was planned."""

    table: PriceTable
    asked: bool

    def store(self, store: RunStore) -> None:
        """Store the prices in the run's folder and, if they came from AWS, under their date too."""
        text = self.table.model_dump_json(indent=2)
        if self.asked:
            store.put(
                f"{PRICES_FOLDER}{self.table.region}/{self.table.as_of}/{store.name}.json", text
            )
        store.write(PRICES, text)


def current_prices(
    pricing: Any, ec2: Any, *, region: str, instance_types: Iterable[str], now: datetime
) -> RunPrices:
    """Fetch current prices, or fall back to the committed ones with a note that says why."""
    try:
        table = fetch_prices(pricing, ec2, region=region, instance_types=instance_types, now=now)
    except Exception as error:  # whatever it is, it must not cost the run its measurements
        return RunPrices(committed_prices(region, _clause(error), now), asked=False)
    return RunPrices(table, asked=True)


def stored_prices(store: RunStore, region: str, now: datetime) -> PriceTable:
    """Read the prices that a run was planned with, or the committed ones if none were stored."""
    text = store.read_if_there(store.prefix + PRICES)
    if text is None:
        return committed_prices(region, "the task plan_jobs stored none", now)
    return PriceTable.model_validate_json(text)


def _offers(pricing: Any, region: str, instance_type: str) -> list[str]:
    wanted = PLAIN_LINUX | {"instanceType": instance_type, "regionCode": region}
    filters = [
        {"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()
    ]
    asked = {"ServiceCode": "AmazonEC2", "FormatVersion": "aws_v1", "Filters": filters}
    return list(all_pages(pricing, "get_products", "PriceList", **asked))


def _spot_history(ec2: Any, instance_types: Sequence[str], now: datetime) -> list[dict[str, Any]]:
    asked = {
        "InstanceTypes": instance_types,
        "ProductDescriptions": ["Linux/UNIX"],
        "StartTime": now - SPOT_HISTORY,
        "EndTime": now,
    }
    return list(all_pages(ec2, "describe_spot_price_history", "SpotPriceHistory", **asked))


def _clause(error: Exception) -> str:
    """Return an error's message without a final full stop, for use within a sentence."""
    return (str(error) or repr(error)).rstrip(".")


def main(arguments: Sequence[str] | None = None) -> int:
    """Update a region's price table; return 1 if the region is unknown or no prices were read."""
    parser = Parser(prog="make prices", description=__doc__)
    parser.add_argument("--region", default="us-east-1", help="AWS region (default: %(default)s)")
    parser.add_argument("--file", type=Path, help="table to write (default: the committed one)")
    parser.add_argument(
        "--from",
        dest="offers",
        type=Path,
        metavar="FILE",
        help="AmazonEC2 CSV price list for the region, plain or gzipped, to read instead of "
        "querying AWS",
    )
    parser.add_argument(
        "instance_types", nargs="*", help="instance types to add to those in the table"
    )
    options = parser.parse_args(arguments)
    if options.region not in (known := boto3.Session().get_available_regions("ec2")):
        say(
            f"prices: {options.region!r} is not a region that boto3 knows; choose one of "
            f"{', '.join(known)}",
            error=True,
        )
        return 1
    committed = price_file(options.region)
    before = load_prices(committed if committed.exists() else PRICES_FILE)
    path = options.file or committed
    asked = {*before.on_demand, *before.spot, *before.type_notes, *options.instance_types}
    try:
        if options.offers:
            table = prices_of_file(options.offers, region=options.region, instance_types=asked)
        else:
            table = fetch_prices(
                *price_clients(options.region),
                region=options.region,
                instance_types=asked,
                now=datetime.now(UTC),
            )
    except (PriceError, BotoCoreError, ClientError) as error:
        say(f"prices: {_clause(error)}; {path.name} is unchanged", error=True)
        return 1
    path.write_text(table.model_dump_json(indent=2) + "\n")
    for note in table.all_notes:
        say(note)
    say(
        f"{path.name}: {len(table.on_demand)} On-Demand and {len(table.spot)} Spot prices for "
        f"{table.region}, dated {table.as_of}; review the diff and commit it"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
