"""IAM: service-linked roles."""

from moto.iam.models import SERVICE_NAME_CONVERSION


def fill() -> None:
    """Name Batch's service-linked role as AWS does: AWSServiceRoleForBatch."""
    SERVICE_NAME_CONVERSION["batch"] = "Batch"
