"""An apply that fails half-way names what to mend; the next apply or destroy cleans up."""

import re
from contextlib import closing

import pytest

from laptop.aws import AwsClients
from laptop.errors import TerraformError
from laptop.stack import PROFILE, init_one_at_a_time
from tests.e2e.remains import remains
from tests.e2e.stacks import fault, open_stack
from tests.terraform.plans import destroy

REASON = "CLIENT_ERROR - The instance profile of this environment does not exist"


def test_an_apply_names_what_failed_and_apply_or_destroy_again_end_clean(tmp_path):
    with open_stack(tmp_path / "stack") as stack, closing(AwsClients(stack.aws)) as aws:
        stack.start_cloud()
        assert remains(stack) == {}
        taken = take_the_bucket_name(aws, name="half")
        init_one_at_a_time(stack.terraform)
        stack.keep_provider()
        invalid = {"compute_environment": "half-*", "reason": REASON}
        with (
            fault(stack, kind="invalid_environment", **invalid),
            pytest.raises(TerraformError) as failed,
        ):
            stack.terraform.apply(var_file=PROFILE, variables={"name": "half"})
        assert re.search(r"Batch Compute Environment \(half-[^)]+\)", str(failed.value))
        assert "unexpected state 'INVALID'" in str(failed.value)
        assert REASON in str(failed.value)
        with pytest.raises(TerraformError, match="BucketAlreadyExists") as failed:
            stack.terraform.apply(var_file=PROFILE, variables={"name": "half"})
        assert "INVALID" not in str(failed.value)
        environments = aws.client("batch").describe_compute_environments()["computeEnvironments"]
        assert environments
        assert {environment["status"] for environment in environments} == {"VALID"}
        assert len(remains(stack)) > 3, "most of the stack was there when the bucket failed"
        destroy(stack.terraform, var_file=PROFILE, variables={"name": "half"})
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
