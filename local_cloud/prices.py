"""Reads the local cloud's prices, which come from a file and are never made up."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Prices:
    """One region's prices: On-Demand in USD per hour by instance type, and Spot in EC2's format."""

    region: str
    as_of: date
    source: str
    source_url: str | None
    on_demand: dict[str, float]
    spot_history: tuple[dict[str, Any], ...]


def read_prices(path: Path) -> Prices:
    """Read a price table in Batchmark's format.

    Raises:
        ValueError: the file can't be read or is not a price table; the message says why.
    """
    try:
        table: dict[str, Any] = json.loads(path.read_bytes())
        return Prices(
            region=str(table["region"]),
            as_of=date.fromisoformat(table["as_of"]),
            source=str(table["source"]),
            source_url=table["source_url"],
            on_demand={name: float(price) for name, price in table["on_demand"].items()},
            spot_history=tuple(
                {
                    "InstanceType": name,
                    "ProductDescription": "Linux/UNIX",
                    "SpotPrice": f"{float(usd):.6f}",
                    "AvailabilityZone": zone,
                    "Timestamp": datetime.fromisoformat(price["changed_at"]),
                }
                for name, price in table["spot"].items()
                for zone, usd in price["zones"].items()
            ),
        )
    except OSError as error:
        raise ValueError(f"can't be read: {error.strerror}") from error
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"is not a valid price table: {error!r}") from error
