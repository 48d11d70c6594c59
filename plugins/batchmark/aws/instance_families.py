"""EC2 instance families: their GPUs, their vCPU quotas, and why Terraform refuses some of them.

Terraform has a copy of `instance_families.json` in `terraform/modules/batch`, and
`machine/cards.py` in the job image repeats the GPU cards.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field

from batchmark.aws.boto_clients import Clients
from batchmark.core.config import PurchaseOption
from batchmark.core.record import Record

FILE = Path(__file__).with_name("instance_families.json")


class Quota(NamedTuple):
    code: str
    name: str


class GpuFamily(Record):
    card: str = Field(description="words that occur in CUDA's name for the GPU")
    compute_capability: str = Field(pattern=r"^\d+\.\d$")
    architecture: Literal["x86_64", "arm64"] = "x86_64"
    whole_gpus: bool = True
    least_driver: int | None = Field(
        default=None,
        description="oldest NVIDIA driver branch that supports the GPU; null if every AMI's "
        "driver supports it",
    )
    refused: str | None = Field(
        default=None, description="key of the reason in `refusals`; null if the family is supported"
    )


class FamilyQuotas(Record):
    families: str = Field(
        description="regular expression that matches the beginning of an instance type's name"
    )
    on_demand: Quota
    spot: Quota | None = Field(description="null if AWS documents no Spot quota")


class InstanceFamilies(Record):
    sources: dict[str, str] = Field(description="source and date of each kind of fact")
    ecs_gpu_ami_driver: int = Field(description="driver branch of the ECS-optimised GPU AMI")
    refusals: dict[str, str] = Field(
        description="clauses that state why a family is refused, and an alternative"
    )
    gpu_families: dict[str, GpuFamily]
    quotas: tuple[FamilyQuotas, ...]


@cache
def instance_families() -> InstanceFamilies:
    return InstanceFamilies.model_validate_json(FILE.read_bytes())


def family_of(instance_type: str) -> str:
    return instance_type.partition(".")[0]


def vcpu_quota(instance_type: str, purchase: PurchaseOption) -> Quota | None:
    """Return the vCPU quota that this instance type counts against, or None if it is unknown."""
    for quotas in instance_families().quotas:
        if re.match(quotas.families, instance_type):
            return quotas.spot if purchase == "spot" else quotas.on_demand
    return None


def describe_quota(client: Clients, quota: Quota) -> dict[str, Any]:
    """Get the account's quota in the region: its `Value` in vCPUs and its `UsageMetric`.

    Raises:
        ClientError, BotoCoreError: Service Quotas rejected the request or did not respond.
    """
    answer = client("service-quotas").get_service_quota(ServiceCode="ec2", QuotaCode=quota.code)
    return dict(answer["Quota"])
