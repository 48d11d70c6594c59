"""EC2 prices in USD per hour for Linux on shared-tenancy instances, with their source.

Parses responses of GetProducts (Price List Query API, format aws_v1) and DescribeSpotPriceHistory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, ValidationError

from batchmark.core.errors import PriceError
from batchmark.core.record import Record

SECONDS_PER_HOUR = 3600
MILLION = 1_000_000

STALE_DAYS = 30  # older On-Demand prices get a warning
SPOT_DAYS = 1  # how long committed Spot prices are used
AWS_SOURCE = "AWS Price List API"
AWS_SOURCE_URL = "https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/price-changes.html"

UsdPerHour = Annotated[float, Field(gt=0)]


def price_file(region: str) -> Path:
    """Return the path of a region's committed price table; the file might not exist."""
    return Path(__file__).with_name(f"prices.{region}.json")


PRICES_FILE = price_file("us-east-1")  # served by the laptop's local cloud


class SpotPrice(Record):
    """An instance type's latest Spot prices by availability zone."""

    zones: dict[str, UsdPerHour] = Field(
        min_length=1, description="USD per hour, by Availability Zone"
    )
    changed_at: AwareDatetime = Field(description="time of the latest price change in any zone")

    @property
    def usd_per_hour(self) -> float:
        """The median price across the zones."""
        return median(self.zones.values())

    def in_zone(self, zone: str | None) -> float | None:
        """Return the price in a zone; None if the zone is unknown or has no price."""
        return self.zones.get(zone) if zone else None

    @property
    def lowest_usd_per_hour(self) -> float:
        return min(self.zones.values())

    @property
    def highest_usd_per_hour(self) -> float:
        return max(self.zones.values())


class PriceTable(Record):
    schema_version: Literal[2] = 2
    currency: Literal["USD"] = "USD"
    region: str
    operating_system: Literal["Linux"] = "Linux"
    as_of: date = Field(
        description="day on which the prices, including Spot prices, were requested, or on which "
        "AWS published the file they come from"
    )
    source: str
    source_url: str | None = None
    on_demand: dict[str, UsdPerHour] = Field(description="USD per hour, by EC2 instance type")
    spot: dict[str, SpotPrice] = Field(default={}, description="Spot prices, by EC2 instance type")
    notes: tuple[str, ...] = Field(default=(), description="notes on missing or outdated prices")
    type_notes: dict[str, str] = Field(
        default={}, description="why a price is missing, by EC2 instance type"
    )

    @property
    def all_notes(self) -> tuple[str, ...]:
        return (*self.notes, *self.type_notes.values())

    def only(self, instance_types: Iterable[str]) -> PriceTable:
        wanted = set(instance_types)
        kept = {
            field: {name: price for name, price in getattr(self, field).items() if name in wanted}
            for field in ("on_demand", "spot", "type_notes")
        }
        return self.model_copy(update=kept)

    def without_old_spot(self, now: datetime) -> PriceTable:
        """Return the table, without its Spot prices if they are too old to use."""
        if not self.spot or self.age_days(now) <= SPOT_DAYS:
            return self
        note = f"The committed Spot prices from {self.as_of} are too old to use."
        return self.model_copy(update={"spot": {}, "notes": (*self.notes, note)})

    def age_days(self, now: datetime) -> int:
        return (now.astimezone(UTC).date() - self.as_of).days

    def staleness(self, now: datetime) -> str | None:
        """Return a warning if there are prices but they are too old to trust, otherwise None."""
        age = self.age_days(now)
        if age <= STALE_DAYS or not (self.on_demand or self.spot):
            return None
        return (
            f"These prices are {age} days old (from {self.as_of}) and may be outdated: let "
            "Airflow fetch current ones from AWS, or refresh the committed table with `make "
            "prices`."
        )


def load_prices(path: Path = PRICES_FILE) -> PriceTable:
    """Read a price table.

    Raises:
        PriceError: the file is missing or is not a price table.
    """
    try:
        return PriceTable.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise PriceError(f"price table {path.name} can't be used: {error}") from error


def committed_prices(region: str, reason: str, now: datetime) -> PriceTable:
    """Return the committed table for a run in `region` that could not get current prices.

    Prices differ between regions, so a region without a committed table gets an empty one. `reason`
    becomes a clause in the table's note. Spot prices older than a day are dropped.
    """
    missing = f"Current prices are unavailable: {reason}."
    if price_file(region).exists():
        prices = load_prices(price_file(region))
        note = f"{missing} Using the committed prices from {prices.as_of}."
        return prices.model_copy(update={"notes": (note,)}).without_old_spot(now)
    prices = load_prices()
    note = f"{missing} The committed prices are for {prices.region} and don't apply to {region}."
    return prices.model_copy(
        update={"region": region, "on_demand": {}, "spot": {}, "type_notes": {}, "notes": (note,)}
    )


def on_demand_price(offers: Iterable[str]) -> float | None:
    """Return an instance type's hourly On-Demand price from its offers; None if there is none.

    The offers are JSON texts from the PriceList that GetProducts returns.

    Raises:
        PriceError: there are several prices, or an offer has an unknown format.
    """
    found = set()
    for text in offers:
        try:
            terms = json.loads(text)["terms"].get("OnDemand", {})
            found |= {
                float(dimension["pricePerUnit"]["USD"])
                for term in terms.values()
                for dimension in term["priceDimensions"].values()
                if dimension["unit"] == "Hrs"
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise PriceError(f"an offer has an unknown format: {error!r}") from error
    found.discard(0.0)  # prepaid by a reservation
    if len(found) > 1:
        listed = ", ".join(f"{price:g}" for price in sorted(found))
        raise PriceError(f"AWS lists several prices: {listed}")
    return found.pop() if found else None


def origin_of(offer: str | None, today: date) -> dict[str, Any]:
    """Return the table fields `source`, `source_url` and `as_of`.

    AWS's offers are valid on the day of the request; a local stand-in states its origin in each
    offer. Without offers, the table has Spot prices only.
    """
    stated: dict[str, Any] = (offer and json.loads(offer).get("origin")) or {}
    return {"source": AWS_SOURCE, "source_url": AWS_SOURCE_URL, "as_of": today} | stated


def spot_prices(history: Iterable[Mapping[str, Any]]) -> dict[str, SpotPrice]:
    """Collect Spot prices by instance type from DescribeSpotPriceHistory's entries."""
    latest: dict[str, dict[str, Mapping[str, Any]]] = {}
    for entry in history:
        zones = latest.setdefault(entry["InstanceType"], {})
        known = zones.get(entry["AvailabilityZone"])
        if known is None or entry["Timestamp"] > known["Timestamp"]:
            zones[entry["AvailabilityZone"]] = entry
    return {
        instance_type: SpotPrice(
            zones={zone: float(entry["SpotPrice"]) for zone, entry in sorted(zones.items())},
            changed_at=max(entry["Timestamp"] for entry in zones.values()),
        )
        for instance_type, zones in sorted(latest.items())
    }


def exact(usd: float) -> Fraction:
    """Convert a float to exactly the decimal number it prints as, so 0.1 becomes one tenth."""
    return Fraction(str(usd))
