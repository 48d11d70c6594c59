"""The core stack on the local cloud: apply, re-plan clean, change, destroy without remains."""

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest

from laptop.aws import AwsClients
from laptop.errors import TerraformError
from laptop.stack import PROFILE, ROOT, init_one_at_a_time
from tests.applied import applied_once, lasting_stack, start_cloud_from
from tests.documented import the_command
from tests.e2e.deployer import recorded, refused
from tests.e2e.remains import LISTINGS, remains
from tests.e2e.stacks import fault, open_stack, type_terraform
from tests.terraform.plans import apply, destroy, planned_changes

# What lists every target in one document, and so changes in place when one comes or goes.
NAMES_ALL_TARGETS = {
    "aws_ssm_parameter.airflow",
    'module.airflow_access.aws_iam_policy.this["run"]',
    "module.batch.aws_iam_role_policy.execution",  # the targets whose log streams it may write to
    "module.batch.aws_iam_role_policy.instance",
    "module.monitoring.aws_cloudwatch_dashboard.this[0]",
    "module.monitoring.aws_cloudwatch_event_rule.job_states",
    'module.monitoring.aws_cloudwatch_event_rule.notice["job_failed"]',
    'module.monitoring.aws_cloudwatch_event_rule.notice["queue_blocked"]',
    'module.monitoring.aws_cloudwatch_event_rule.notice["spot_interruption"]',
}


ASKED_FOR = {"vcpus": 2, "memory_mib": 4096}
MORE_VCPUS = {
    "target_overrides": {
        "g4dn.xlarge": {**ASKED_FOR, "allow_cpu_fallback": True},
        "c5.2xlarge": {**ASKED_FOR, "max_vcpus": 128},
    }
}

AIRFLOWS_ROLE = {"airflow_principal_arns": ["arn:aws:iam::123456789012:role/airflow"]}

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def lives(tmp_path_factory):
    """Both tests' stacks live side by side, from copies of one apply: Terraform mostly waits."""
    applied = applied_once()
    with ExitStack() as stacks, ThreadPoolExecutor() as pool:
        futures = {}
        for life in (changed_and_destroyed, given_a_target_for_a_while):
            stack = stacks.enter_context(lasting_stack(tmp_path_factory.mktemp(life.__name__)))
            start_cloud_from(applied, stack)
            stack.keep_provider()
            futures[life] = pool.submit(life, stack)
        yield futures


def test_core_stack_is_applied_as_planned_changed_in_place_and_destroyed(lives):
    lives[changed_and_destroyed].result()


def test_another_target_changes_no_other_and_leaves_nothing(lives):
    lives[given_a_target_for_a_while].result()


def changed_and_destroyed(stack):
    assert len(remains(stack)) > len(LISTINGS)
    terraform = stack.terraform
    assert planned_changes(terraform, var_file=PROFILE) == {}

    assert apply(terraform, var_file=PROFILE, variables=MORE_VCPUS) == {
        f'module.batch.aws_batch_compute_environment.this["c5.2xlarge/{purchase}"]': "update"
        for purchase in ("spot", "on_demand")
    }
    assert planned_changes(terraform, var_file=PROFILE, variables=MORE_VCPUS) == {}

    new_template = {**MORE_VCPUS, "volume_size_gib": 80, "ami_release": "another"}
    first = the_command("cd terraform && terraform init && terraform apply")
    type_terraform(stack, first, ROOT, PROFILE, **new_template)
    assert planned_changes(terraform, var_file=PROFILE, variables=new_template) == {}

    submit_a_revision_from_before_an_apply(stack, {**new_template, "image_tag": "0.3.0"})

    destroy(terraform, var_file=PROFILE)
    assert remains(stack) == {}
    assert terraform.outputs() == {}
    assert refused_to_a_deployer(stack) == set()


def given_a_target_for_a_while(stack):
    terraform = stack.terraform
    before = counted(remains(stack))
    two_of_a_kind = {"cpu_instance_types": ["c5.2xlarge", "m5.2xlarge"]}
    changes = apply(terraform, var_file=PROFILE, variables=two_of_a_kind)
    ours = {address: action for address, action in changes.items() if "m5.2xlarge" in address}
    assert set(ours.values()) == {"create"}
    lists_all_targets = {address: changes[address] for address in set(changes) - set(ours)}
    assert set(lists_all_targets) == NAMES_ALL_TARGETS, "another target's resource changes"
    assert set(lists_all_targets.values()) == {"update"}
    assert planned_changes(terraform, var_file=PROFILE, variables=two_of_a_kind) == {}

    changes = apply(terraform, var_file=PROFILE)
    assert changes == dict.fromkeys(ours, "delete") | lists_all_targets
    assert planned_changes(terraform, var_file=PROFILE) == {}
    assert counted(remains(stack)) == before
    assert refused_to_a_deployer(stack) == set()


def refused_to_a_deployer(stack):
    """Of the apply that both lives begin with, and of this life."""
    applied = applied_once() / stack.calls.relative_to(stack.folder)
    return refused(recorded(applied) + recorded(stack.calls))


def counted(remaining):
    return {kind: len(found) for kind, found in remaining.items()}


def submit_a_revision_from_before_an_apply(stack, changed):
    """As a DAG run does that was planned before somebody applied."""
    target = stack.terraform.outputs()["targets"]["c5.2xlarge"]
    capped = the_command("terraform apply -var monthly_cap_usd=200")
    type_terraform(stack, capped, var_file=PROFILE, **changed, **AIRFLOWS_ROLE)
    assert ":role/" in type_terraform(stack, the_command("terraform output airflow_role_arn"))
    assert (
        stack.terraform.outputs()["targets"]["c5.2xlarge"]["job_definition"]
        != (target["job_definition"])
    )
    with closing(AwsClients(stack.aws)) as aws:
        assert aws.config().monthly_cap_usd == 200
        batch = aws.client("batch")
        job = batch.submit_job(
            jobName="planned-before",
            jobQueue=target["job_queue"],
            jobDefinition=target["job_definition"],
            containerOverrides={"command": ["true"]},
        )
        batch.terminate_job(jobId=job["jobId"], reason="that it was taken is enough")


REASON = "CLIENT_ERROR - The instance profile of this environment does not exist"


def test_an_apply_names_what_failed_and_apply_or_destroy_again_end_clean(tmp_path):
    with open_stack(tmp_path / "stack") as stack, closing(AwsClients(stack.aws)) as aws:
        stack.start_cloud()
        assert remains(stack) == {}
        account = aws.client("sts").get_caller_identity()["Account"]
        taken = f"half-results-{account}-us-east-1"
        other_account(aws).create_bucket(Bucket=taken)
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
        assert [taken] == [
            bucket["Name"] for bucket in other_account(aws).list_buckets()["Buckets"]
        ]


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
