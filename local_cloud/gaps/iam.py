"""IAM: the real names of service-linked roles."""

from __future__ import annotations

from moto.iam.models import SERVICE_NAME_CONVERSION


def fill() -> None:
    # What follows AWSServiceRoleFor in each name.
    SERVICE_NAME_CONVERSION.update(batch="Batch", ecs="ECS", spot="EC2Spot")
