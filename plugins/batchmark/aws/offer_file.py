"""Reads a region's On-Demand prices from AWS's public EC2 price list file.

The CSV file is read line by line; the JSON file would be a single object of about 400 MB.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import IO

from batchmark.aws.instance_families import family_of, instance_families
from batchmark.core.errors import PriceError
from batchmark.core.prices import PriceTable

# Linux on a shared host without reservation; no local zones. The Price List API's fields.
PLAIN_LINUX = {
    "locationType": "AWS Region",
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
COLUMNS = {
    "locationType": "Location Type",
    "operatingSystem": "Operating System",
    "tenancy": "Tenancy",
    "preInstalledSw": "Pre Installed S/W",
    "capacitystatus": "CapacityStatus",
    "marketoption": "MarketOption",
}
HOURLY = {"TermType": "OnDemand", "Unit": "Hrs", "Currency": "USD"}
NEEDED = {"Publication Date", "Version", "Instance Type", "Region Code", "PricePerUnit"}
NEEDED |= {*HOURLY, *COLUMNS.values()}

LISTS = "https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonEC2"
MOST_LINES_ABOVE = 20  # before the names of the columns: AWS writes five
GZIP = b"\x1f\x8b"


def prices_of_file(path: Path, *, region: str, instance_types: Iterable[str]) -> PriceTable:
    """Read prices for all sizes of the given types' families and of supported GPU families.

    The table has no Spot prices. Its notes say which types have no On-Demand price, and why.

    Raises:
        PriceError: the file can't be read, isn't an AWS price list, or has none of these prices.
    """
    hint = f"download the region's list with `curl -O {LISTS}/current/{region}/index.csv`"
    asked = set(instance_types)
    families = {family_of(name) for name in asked} | {
        name for name, family in instance_families().gpu_families.items() if not family.refused
    }
    found: dict[str, set[float]] = defaultdict(set)
    try:
        with _opened(path) as file:
            rows = csv.reader(file)
            about, columns = _head(rows)
            if about.get("OfferCode") != "AmazonEC2" or not {*about, *columns} >= NEEDED:
                raise PriceError(f"{path.name} is not a CSV price list for AmazonEC2; {hint}")
            published = datetime.fromisoformat(about["Publication Date"]).date()
            for name, price in _offers(rows, columns, region):
                if family_of(name) in families and price > 0:  # else prepaid by a reservation
                    found[name].add(price)
    except (OSError, EOFError, ValueError, csv.Error, zlib.error) as error:
        raise PriceError(f"{path.name} can't be read: {error}") from error
    if not found:
        raise PriceError(f"{path.name} contains no On-Demand price for {region}; {hint}")
    notes = {
        name: f"The file lists no On-Demand price for {name} in {region}."
        for name in sorted(asked - set(found))
    }
    for name, prices in sorted(found.items()):
        if len(prices) > 1:
            listed = ", ".join(f"{price:g}" for price in sorted(prices))
            notes[name] = (
                f"The On-Demand price for {name} is unknown because the file lists several "
                f"({listed})."
            )
    return PriceTable(
        region=region,
        as_of=published,
        source=f"AWS's price list of AmazonEC2, version {about['Version']}",
        source_url=f"{LISTS}/{about['Version']}/{region}/index.csv",
        on_demand={name: min(found[name]) for name in sorted(found) if name not in notes},
        type_notes=notes,
    )


def _opened(path: Path) -> IO[str]:
    with path.open("rb") as file:
        gzipped = file.read(len(GZIP)) == GZIP
    return (gzip.open if gzipped else open)(path, "rt", encoding="utf-8", newline="")


def _head(rows: Iterator[list[str]]) -> tuple[dict[str, str], list[str]]:
    """Return the metadata above the file's header, and the header; both empty if there is none."""
    about: dict[str, str] = {}
    for row in islice(rows, MOST_LINES_ABOVE):
        if row[:1] == ["SKU"]:
            return about, row
        about |= {row[0]: row[1]} if len(row) == 2 else {}
    return {}, []


def _offers(
    rows: Iterable[list[str]], columns: Sequence[str], region: str
) -> Iterator[tuple[str, float]]:
    """Yield the type and hourly price in USD of each plain Linux On-Demand offer in the region."""
    asked = HOURLY | {"Region Code": region}
    asked |= {COLUMNS[field]: value for field, value in PLAIN_LINUX.items()}
    cells = [(columns.index(name), value) for name, value in asked.items()]
    name, price = columns.index("Instance Type"), columns.index("PricePerUnit")
    for row in rows:
        if len(row) == len(columns) and all(row[place] == value for place, value in cells):
            yield row[name], float(row[price])
