"""Each file in terraform/examples on a local cloud: apply, re-plan clean, destroy."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial

import pytest

from laptop.aws import AwsClients
from laptop.stack import ROOT
from tests.documented import the_block, the_command
from tests.e2e.deployer import CORE, EXCUSED, idle, needed, recorded, refused, unused
from tests.e2e.remains import remains
from tests.e2e.stacks import open_stack, type_terraform
from tests.terraform.plans import destroy_unchanged, planned_changes

EXAMPLES = sorted(path.stem for path in (ROOT / "terraform" / "examples").glob("*.tfvars"))
# All that differs from an apply in AWS.
HERE = {"local_cloud": True, "force_destroy": True}
# Each becomes the next one, with what no example has.
CHANGES = ["own_job", "shared_gpu", "spot_and_on_demand", "multi_gpu"]
BESIDE = {
    "name": "batchmark-job",
    "enable_nat_gateway": True,
    "alert_emails": ["you@example.org"],
    "airflow_principal_arns": ["arn:aws:iam::123456789012:role/airflow"],
}
APPLY = the_command("terraform apply -var-file=examples/NAME.tfvars")


def live_through(stack, examples, **variables):
    """Apply and plan, one example after the other as changes of one stack; then destroy.

    Returns of each the outputs, what the plan would have changed, and what the destroy left.
    """
    lives = {}
    for example in examples:
        var_file = ROOT / "terraform" / APPLY.partition("=")[2].replace("NAME", example)
        given = {"var_file": var_file, "variables": HERE | variables}
        stack.terraform.apply(**given)
        lives[example] = stack.terraform.outputs(), planned_changes(stack.terraform, **given)
    destroy_unchanged(stack.terraform, **given)
    left = remains(stack)
    return {example: (*life, left) for example, life in lives.items()}


def live_in_an_existing_network(stack):
    with existing_network(stack) as network:
        (life,) = live_through(stack, ["existing_network"], **network).values()
    return {"existing_network": (*life[:2], remains(stack))}


def live_as_documented(stack, example="minimal"):
    """The same with the lines of the README and of the first apply, typed as they stand there."""
    planned = type_terraform(stack, the_command("terraform init && terraform plan -var-file="))
    assert " to add, 0 to change, 0 to destroy." in planned
    stack.keep_provider()
    readme = "\n".join(the_block("cd terraform && terraform init"))
    applied = type_terraform(stack, f"make() {{ echo make $*; }}\n{readme}", ROOT)
    assert "\nmake image\n" in applied
    assert "Resources: 0 added, 0 changed, 0 destroyed." in applied.partition("make image")[2]
    replanned = type_terraform(stack, the_command("terraform plan -var-file="))
    assert replanned.endswith("Plan: 0 to add, 0 to change, 0 to destroy.\n")
    outputs = stack.terraform.outputs()
    with_file = the_command(f"terraform apply -var-file=examples/{example}.tfvars -var force")
    runbook = the_command("terraform apply -var force_destroy=true")
    assert with_file.replace(f" -var-file=examples/{example}.tfvars", "") == runbook
    type_terraform(stack, with_file)
    assert the_command("terraform destroy -var force") == runbook.replace("apply", "destroy")
    type_terraform(stack, with_file.replace("apply", "destroy"))
    return {example: (outputs, {}, remains(stack))}


@contextmanager
def existing_network(stack):
    """What an account's network team would have made, as variables."""
    with closing(AwsClients(stack.aws)) as aws:
        ec2 = aws.client("ec2")
        vpc_id = ec2.create_vpc(CidrBlock="10.7.0.0/16")["Vpc"]["VpcId"]
        zones = {"us-east-1a": "10.7.0.0/20", "us-east-1b": "10.7.16.0/20"}
        subnet_ids = []
        for zone, cidr in zones.items():
            made = ec2.create_subnet(VpcId=vpc_id, CidrBlock=cidr, AvailabilityZone=zone)
            subnet_ids.append(made["Subnet"]["SubnetId"])
        named = {"GroupName": "jobs", "Description": "jobs", "VpcId": vpc_id}
        group_id = ec2.create_security_group(**named)["GroupId"]
        network = {"vpc_id": vpc_id, "subnet_ids": subnet_ids, "security_group_ids": [group_id]}
        yield {"existing_network": network}
        ec2.delete_security_group(GroupId=group_id)
        for subnet_id in subnet_ids:
            ec2.delete_subnet(SubnetId=subnet_id)
        ec2.delete_vpc(VpcId=vpc_id)


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    """The lives side by side, as Terraform waits half of its time; and each one's calls."""
    lives = {
        "minimal": live_as_documented,
        "existing": live_in_an_existing_network,
        "private": partial(live_through, examples=["private_network"]),
        "others": partial(live_through, examples=CHANGES, **BESIDE),
    }
    with ExitStack() as stacks, ThreadPoolExecutor() as pool:
        started, futures = {}, []
        for name, life in lives.items():
            stack = stacks.enter_context(open_stack(tmp_path_factory.mktemp(name)))
            started[name] = stack
            stack.start_cloud()
            if life is not live_as_documented:
                stack.keep_provider()
            futures.append(pool.submit(life, stack))
        examples = {
            example: life for future in futures for example, life in future.result().items()
        }
        yield examples, {name: recorded(stack.calls) for name, stack in started.items()}


@pytest.fixture(scope="module")
def calls(lived):
    return lived[1]


def test_the_examples_are_these():
    assert sorted([*CHANGES, "existing_network", "minimal", "private_network"]) == EXAMPLES


@pytest.mark.timeout(2400)
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_applies_replans_clean_and_destroys(lived, example):
    outputs, changes, left = lived[0][example]
    assert changes == {}
    assert outputs["targets"]
    assert left == {}


def test_a_deployers_policies_allow_all_that_applying_takes(calls):
    assert {name: found for name in calls if (found := refused(calls[name]))} == {}


def test_a_deployer_may_do_nothing_that_no_apply_takes_but_for_a_reason(calls):
    needs = set().union(*(needed(of_life)[1] for of_life in calls.values()))
    assert unused(needs, *CORE) == set()
    assert EXCUSED & {need.action for need in needs} == set()
    assert set.intersection(*map(idle, calls.values())) == {
        ("compute", "GrantToImages"),
        ("compute", "ServiceLinkedRoles"),
        ("network", "NameEndpoints"),
        ("services", "EmptyTheBucket"),
    }
