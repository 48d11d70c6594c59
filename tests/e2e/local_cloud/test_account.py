"""What belongs to an account rather than to an installation: service-linked roles and quotas."""

import boto3
import pytest
from botocore.exceptions import ClientError

# Of the check block in terraform/service_linked_roles.tf.
ROLES = {
    "autoscaling": "AWSServiceRoleForAutoScaling",
    "batch": "AWSServiceRoleForBatch",
    "ecs": "AWSServiceRoleForECS",
    "spot": "AWSServiceRoleForEC2Spot",
}


@pytest.fixture
def new_account(strict_cloud):
    """IAM of an account in which nobody has done anything."""
    role = "arn:aws:iam::333333333333:role/first"
    sts = strict_cloud.client("sts")
    issued = sts.assume_role(RoleArn=role, RoleSessionName="first")["Credentials"]
    names = ("AccessKeyId", "SecretAccessKey", "SessionToken")
    session = boto3.Session(*(issued[name] for name in names), region_name="us-east-1")
    iam = session.client("iam", endpoint_url=strict_cloud.endpoint_url)
    yield iam
    iam.close()


def test_service_linked_roles_have_aws_names(new_account):
    for service, role in ROLES.items():
        made = new_account.create_service_linked_role(AWSServiceName=f"{service}.amazonaws.com")
        assert made["Role"]["RoleName"] == role


def test_the_quotas_that_are_listed_are_those_that_can_be_asked_for(strict_cloud):
    quotas = strict_cloud.client("service-quotas")
    listed = quotas.list_service_quotas(ServiceCode="ec2")["Quotas"]
    assert "Running On-Demand G and VT instances" in {quota["QuotaName"] for quota in listed}
    for quota in listed:
        asked = quotas.get_service_quota(ServiceCode="ec2", QuotaCode=quota["QuotaCode"])
        assert asked["Quota"] == quota
    with pytest.raises(ClientError, match="NoSuchResource"):
        quotas.list_service_quotas(ServiceCode="none")
