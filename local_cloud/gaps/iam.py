"""IAM: service-linked roles, and deletions of policy versions that are sent twice."""

from __future__ import annotations

from moto.iam.models import SERVICE_NAME_CONVERSION, IAMBackend


def fill() -> None:
    """Close the gaps."""
    # As AWS names it: AWSServiceRoleForBatch.
    SERVICE_NAME_CONVERSION["batch"] = "Batch"
    forgive_repeated_deletions()


def forgive_repeated_deletions() -> None:
    """Let a version that is gone be deleted again: a client whose answer got lost sends it twice,
    and Terraform's provider takes the 404 for a failed destroy.
    """
    delete = IAMBackend.delete_policy_version

    def delete_policy_version(self: IAMBackend, policy_arn: str, version_id: str) -> None:
        policy = self.get_policy(policy_arn)
        created = range(1, policy.next_version_num)
        there = {version.version_id for version in policy.versions}
        if version_id not in there and version_id in {f"v{number}" for number in created}:
            return
        delete(self, policy_arn, version_id)

    IAMBackend.delete_policy_version = delete_policy_version  # type: ignore[method-assign]
