"""IAM: the real names of service-linked roles, and AWS's own policies read once.

The roles are those of Batch, ECS and Spot.
"""

from __future__ import annotations

from moto.iam.models import SERVICE_NAME_CONVERSION, IAMBackend, ManagedPolicy

PARTITION = "aws"

_init_aws_policies = IAMBackend._init_aws_policies


def fill() -> None:
    # What follows AWSServiceRoleFor in each name.
    SERVICE_NAME_CONVERSION.update(batch="Batch", ecs="ECS", spot="EC2Spot")
    IAMBackend._init_aws_policies = policies_of_aws  # type: ignore[method-assign]


def policies_of_aws(self: IAMBackend) -> list[ManagedPolicy]:
    """AWS's 1,580 policies, in the partition that is served.

    moto looks for an access key in the backend of every partition, and reads them for each: a
    second at the first request.
    """
    return _init_aws_policies(self) if self.region_name == PARTITION else []
