"""Gives IAM's service-linked roles their real names, and loads AWS's policies only once."""

from __future__ import annotations

from moto.iam.models import SERVICE_NAME_CONVERSION, IAMBackend, ManagedPolicy

PARTITION = "aws"

_init_aws_policies = IAMBackend._init_aws_policies


def fill() -> None:
    # What follows AWSServiceRoleFor in each name.
    SERVICE_NAME_CONVERSION.update(batch="Batch", ecs="ECS", spot="EC2Spot")
    IAMBackend._init_aws_policies = policies_of_aws  # type: ignore[method-assign]


def policies_of_aws(self: IAMBackend) -> list[ManagedPolicy]:
    """Return AWS's 1,580 managed policies for the `aws` partition's backend, and none for others.

    moto looks up an access key in every partition's backend and would load the policies for each
    of them, which would delay the first request by a second.
    """
    return _init_aws_policies(self) if self.region_name == PARTITION else []
