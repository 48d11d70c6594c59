"""What moto 5.2.5 leaves out of its answers, one file per service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from local_cloud.gaps import athena, budgets, ec2, events, iam, s3, service_quotas

if TYPE_CHECKING:
    from local_cloud.prices import Prices


def fill(prices: Prices | None = None) -> None:
    """Patch moto in place; Batch needs none, its gaps are filled by subclasses."""
    athena.fill()
    budgets.fill()
    ec2.fill(prices)
    events.fill()
    iam.fill()
    s3.fill()
    service_quotas.fill()
