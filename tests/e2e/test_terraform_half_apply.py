"""An apply of the core stack that fails half-way, and the destroy after it."""

from contextlib import closing

import pytest

from laptop.aws import AwsClients
from laptop.errors import TerraformError
from laptop.stack import PROFILE
from tests.e2e.remains import remains
from tests.e2e.stacks import open_stack


@pytest.mark.timeout(600)
def test_a_destroy_after_a_half_apply_ends_clean(tmp_path):
    with open_stack(tmp_path / "stack") as stack, closing(AwsClients(stack)) as aws:
        stack.start_cloud()
        assert remains(stack) == {}
        taken = take_the_bucket_name(aws, name="half")
        stack.init_terraform()
        with pytest.raises(TerraformError, match="BucketAlreadyExists"):
            stack.terraform.apply(var_file=PROFILE, variables={"name": "half"})
        assert len(remains(stack)) > 3, "most of the stack was there when the bucket failed"
        stack.terraform.destroy(var_file=PROFILE, variables={"name": "half"})
        assert remains(stack) == {}
        assert taken == [bucket["Name"] for bucket in other_account(aws).list_buckets()["Buckets"]]


def other_account(aws):
    """S3 as another account sees it."""
    role = "arn:aws:iam::222222222222:role/somebody-else"
    answer = aws.client("sts").assume_role(RoleArn=role, RoleSessionName="test")["Credentials"]
    return aws.session.client(
        "s3",
        endpoint_url=aws.client("sts").meta.endpoint_url,
        aws_access_key_id=answer["AccessKeyId"],
        aws_secret_access_key=answer["SecretAccessKey"],
        aws_session_token=answer["SessionToken"],
    )


def take_the_bucket_name(aws, name):
    account = aws.client("sts").get_caller_identity()["Account"]
    bucket = f"{name}-results-{account}-us-east-1"
    other_account(aws).create_bucket(Bucket=bucket)
    return [bucket]
