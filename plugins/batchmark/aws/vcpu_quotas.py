"""The EC2 vCPU quota that an instance type counts against, and its value.

The codes are those of Service Quotas, https://docs.aws.amazon.com/general/latest/gr/ec2-service.html.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from batchmark.aws.boto_clients import Clients
from batchmark.core.config import PurchaseOption


class Quota(NamedTuple):
    code: str
    name: str


_STANDARD = "Standard (A, C, D, H, I, M, R, T, Z)"

# prefix of the instance type -> quota by purchase option
_QUOTAS: dict[str, dict[PurchaseOption, Quota]] = {
    r"[acdhimrtz]\d": {
        "on_demand": Quota("L-1216C47A", f"Running On-Demand {_STANDARD} instances"),
        "spot": Quota("L-34B43A08", f"All {_STANDARD} Spot Instance Requests"),
    },
    r"(g|gr|vt)\d": {
        "on_demand": Quota("L-DB2E81BA", "Running On-Demand G and VT instances"),
        "spot": Quota("L-3819A6DF", "All G and VT Spot Instance Requests"),
    },
    r"p[2-4]": {
        "on_demand": Quota("L-417A185B", "Running On-Demand P instances"),
        "spot": Quota("L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests"),
    },
    r"p5": {
        "on_demand": Quota("L-417A185B", "Running On-Demand P instances"),
        "spot": Quota("L-C4BD4855", "All P5 Spot Instance Requests"),
    },
    r"x\d": {
        "on_demand": Quota("L-7295265B", "Running On-Demand X instances"),
        "spot": Quota("L-E3A00192", "All X Spot Instance Requests"),
    },
}


def vcpu_quota(instance_type: str, purchase: PurchaseOption) -> Quota | None:
    """The quota that instances of this type count against; None for an unknown family."""
    for pattern, quotas in _QUOTAS.items():
        if re.match(pattern, instance_type):
            return quotas[purchase]
    return None


def describe_quota(client: Clients, quota: Quota) -> dict[str, Any]:
    """A quota of the account in the region: its `Value` in vCPUs, and its `UsageMetric`.

    Raises:
        ClientError, BotoCoreError: Service Quotas did not answer.
    """
    answer = client("service-quotas").get_service_quota(ServiceCode="ec2", QuotaCode=quota.code)
    return dict(answer["Quota"])
