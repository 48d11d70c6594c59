"""The cost of a run's file system: FSx bills all provisioned storage by the second."""

from __future__ import annotations

import math
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from batchmark.core import formatting
from batchmark.core.clusters.multi_node import FileSystem
from batchmark.core.prices import SECONDS_PER_HOUR, exact
from batchmark.core.record import Record
from batchmark_job.result.values import Shown

# A month's price is spread over its days: over February's, a second costs most.
FEWEST_DAYS = 28


class StoragePrices(Record):
    """A region's committed FSx for Lustre storage prices."""

    schema_version: Literal[1]
    currency: Literal["USD"]
    region: str
    as_of: date
    source: str
    source_url: str
    usd_per_gb_month: dict[str, Annotated[float, Field(gt=0)]] = Field(
        description="price for each FileSystem.kind"
    )


def price_file(region: str) -> Path:
    """Return the path of a region's committed prices; the file might not exist."""
    return Path(__file__).with_name(f"file_system_prices.{region}.json")


def usd_per_gb_month(settings: FileSystem, region: str) -> float | None:
    """Return the storage price per GB per month; None if unknown."""
    path = price_file(region)
    if not path.exists():
        return None
    prices = StoragePrices.model_validate_json(path.read_bytes())
    return prices.usd_per_gb_month.get(settings.kind)


class FileSystemWorst(Record):
    """The worst-case cost of a run's file system."""

    kind: Shown
    storage_gib: int = Field(ge=1)
    seconds: int = Field(ge=1, description="longest possible time from creation to deletion")
    usd_per_gb_month: float | None = Field(description="null if unknown")
    usd: float | None = Field(
        description="cost rounded up to the next cent; null if the price is unknown"
    )

    @classmethod
    def of(cls, settings: FileSystem, region: str, seconds: int) -> FileSystemWorst:
        price = usd_per_gb_month(settings, region)
        usd = None
        if price is not None:
            usd = math.ceil(100 * exact_usd(settings.storage_gib, seconds, price)) / 100
        return cls(
            kind=settings.kind,
            storage_gib=settings.storage_gib,
            seconds=seconds,
            usd_per_gb_month=price,
            usd=usd,
        )

    @property
    def cents(self) -> int | None:
        return None if self.usd is None else round(100 * self.usd)

    @property
    def usd_per_hour(self) -> float | None:
        """The hourly cost in February; in longer months an hour is up to a tenth cheaper."""
        if self.usd_per_gb_month is None:
            return None
        return float(exact_usd(self.storage_gib, SECONDS_PER_HOUR, self.usd_per_gb_month))

    def __str__(self) -> str:
        usd = "unknown" if self.usd is None else formatting.usd(self.usd)
        return (
            f"file system: {usd} ({self.kind}, {self.storage_gib:,} GiB for "
            f"{self.seconds:,} s at {self.usd_per_gb_month or 'an unknown amount of'} "
            "USD per GB-month)"
        )


def exact_usd(storage_gib: int, seconds: float, price: float, days: int = FEWEST_DAYS) -> Fraction:
    """Return the exact cost of `seconds` of storage in a month of `days` days; 28 cost the most."""
    return exact(price) * storage_gib * exact(seconds) / (days * 24 * SECONDS_PER_HOUR)
