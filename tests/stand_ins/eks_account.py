"""An AWS account with the EKS stack's cluster and node group, as the local cloud holds them."""

from __future__ import annotations

from typing import Any

from moto.core import DEFAULT_ACCOUNT_ID
from moto.eks.models import eks_backends

from local_cloud.gaps import eks as gap
from tests.stand_ins.kubernetes_api.clients import CLUSTER, REGION
from tests.stand_ins.moto_account import moto_client

gap.fill()


class EksAccount:
    """Within moto's account; `cluster` and `group` are moto's own objects."""

    def __init__(self, endpoint: str = "https://eks.example") -> None:
        self.eks = moto_client("eks", region_name=REGION)
        ec2 = moto_client("ec2", region_name=REGION)
        found = ec2.describe_subnets()["Subnets"]  # of the default VPC, one in each zone
        self.subnets = [subnet["SubnetId"] for subnet in found]
        self.role = self.make_role("any")
        self.create_cluster()
        self.create_group()
        self.cluster.endpoint = endpoint
        self.cluster.certificate_authority = {"data": "bm9uZQ=="}

    def make_role(self, name: str) -> str:
        iam = moto_client("iam", region_name=REGION)
        role = iam.create_role(RoleName=name, AssumeRolePolicyDocument="{}")
        return str(role["Role"]["Arn"])

    def create_cluster(self, name: str = CLUSTER, **changes: Any) -> None:
        self.eks.create_cluster(
            **{
                "name": name,
                "version": "1.36",
                "roleArn": self.role,
                "resourcesVpcConfig": {"subnetIds": self.subnets[:2]},
                "accessConfig": {"authenticationMode": "API"},
            }
            | changes
        )

    def create_group(self, name: str = "gpu", **changes: Any) -> None:
        self.eks.create_nodegroup(
            **{
                "clusterName": CLUSTER,
                "nodegroupName": name,
                "nodeRole": self.role,
                "subnets": self.subnets[:2],
                "scalingConfig": {"minSize": 0, "desiredSize": 0, "maxSize": 1},
            }
            | changes
        )

    @property
    def cluster(self) -> Any:
        return eks_backends[DEFAULT_ACCOUNT_ID][REGION].clusters[CLUSTER]

    @property
    def group(self) -> Any:
        return self.cluster.nodegroups["gpu"]
