"""An apply that fails half-way names what to mend; the next apply or destroy cleans up."""

import re
from contextlib import closing, contextmanager

import httpx
import pytest

from laptop.aws import AwsClients
from laptop.errors import TerraformError
from laptop.stack import PROFILE, init_one_at_a_time
from tests.clouds import DEADLINE_SECONDS, SignedCalls
from tests.e2e.remains import remains
from tests.e2e.stacks import open_stack
from tests.terraform.plans import destroy

REASON = "CLIENT_ERROR - The instance profile of this environment does not exist"


def test_an_apply_names_what_failed_and_apply_or_destroy_again_end_clean(tmp_path):
    with open_stack(tmp_path / "stack") as stack, closing(AwsClients(stack.aws)) as aws:
        stack.start_cloud()
        assert remains(stack) == {}
        taken = take_the_bucket_name(aws, name="half")
        init_one_at_a_time(stack.terraform)
        with environment_invalid(stack, "half-*"), pytest.raises(TerraformError) as failed:
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


@contextmanager
def environment_invalid(stack, names):
    """Environments that end INVALID, as for a role that is not there yet."""
    auth = SignedCalls(stack.aws["AWS_SECRET_ACCESS_KEY"])
    with httpx.Client(
        base_url=stack.endpoint, auth=auth, trust_env=False, timeout=DEADLINE_SECONDS
    ) as control:
        fault = {"kind": "invalid_environment", "compute_environment": names, "reason": REASON}
        begun = control.post("/_faults", json=fault).raise_for_status().json()
        yield
        control.delete(f"/_faults/{begun['id']}").raise_for_status()


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
