"""Fills gaps in moto 5.2.5, one module per service."""

from __future__ import annotations

import functools

from moto.core import responses
from moto.core.utils import method_names_from_class

from local_cloud.gaps import (
    athena,
    budgets,
    ec2,
    eks,
    events,
    iam,
    logs,
    placement_groups,
    s3,
    service_quotas,
    ssm,
)
from local_cloud.prices import Prices


def fill(prices: Prices | None = None) -> None:
    """Patch moto in place, except for Batch and FSx, whose backends are replaced by subclasses."""
    ec2.fill(prices)
    for gap in (athena, budgets, eks, events, iam, logs, placement_groups, s3, service_quotas, ssm):
        gap.fill()
    # moto would inspect the class with every call; from now on, it stays as it is.
    responses.method_names_from_class = functools.cache(method_names_from_class)  # type: ignore[attr-defined]
