"""IAM: the real names of service-linked roles."""

from __future__ import annotations

from moto.iam.models import SERVICE_NAME_CONVERSION


def fill() -> None:
    # Makes the name AWS's: AWSServiceRoleForBatch.
    SERVICE_NAME_CONVERSION["batch"] = "Batch"
