"""Adds EC2's vCPU quotas to Service Quotas, where moto has only VPC's.

Unless a fault sets one, the quotas are far above anything that can run here. Usage is not counted.
"""

from __future__ import annotations

import json
from typing import Any

from moto.servicequotas.models import ServiceQuotasBackend
from moto.servicequotas.responses import ServiceQuotasResponse

from local_cloud.faults.kinds import VcpuQuota
from local_cloud.faults.under_way import active_faults

# EC2 User Guide, "On-Demand Instance quotas" and "Spot Instance quotas".
NAMES = {
    "L-1216C47A": "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
    "L-DB2E81BA": "Running On-Demand G and VT instances",
    "L-417A185B": "Running On-Demand P instances",
    "L-7295265B": "Running On-Demand X instances",
    "L-34B43A08": "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests",
    "L-3819A6DF": "All G and VT Spot Instance Requests",
    "L-7212CCBC": "All P4, P3 and P2 Spot Instance Requests",
    "L-C4BD4855": "All P5 Spot Instance Requests",
    "L-E3A00192": "All X Spot Instance Requests",
}
# Never a limit here, as the pool is smaller. A fault may set another value.
VCPUS = 1_000_000.0


def fill() -> None:
    get = ServiceQuotasBackend.get_service_quota

    def get_service_quota(
        self: ServiceQuotasBackend, service_code: str, quota_code: str
    ) -> dict[str, Any]:
        if service_code == "ec2" and quota_code in NAMES:
            return quota(quota_code, self.region_name, self.account_id)
        return get(self, service_code, quota_code)

    ServiceQuotasBackend.get_service_quota = get_service_quota  # type: ignore[method-assign]
    ServiceQuotasResponse.list_service_quotas = list_service_quotas  # type: ignore[attr-defined]


def list_service_quotas(self: ServiceQuotasResponse) -> str:
    backend, service_code = self.backend, json.loads(self.body).get("ServiceCode")
    if service_code == "ec2":
        quotas = [quota(code, backend.region_name, backend.account_id) for code in NAMES]
    else:
        quotas = backend.list_aws_default_service_quotas(service_code)
    return json.dumps({"Quotas": quotas})


def quota(code: str, region: str, account: str) -> dict[str, Any]:
    faulty = (fault.vcpus for _, fault in active_faults(VcpuQuota) if fault.covers(code))
    return {
        "ServiceCode": "ec2",
        "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
        "QuotaArn": f"arn:aws:servicequotas:{region}:{account}:ec2/{code}",
        "QuotaCode": code,
        "QuotaName": NAMES[code],
        "Value": float(next(faulty, VCPUS)),
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }
