"""The policies of whoever applies: their form, and what they refuse.

That they allow what applying takes is shown by its calls (tests/e2e/test_terraform_examples.py).
"""

import json

import pytest
from moto.iam.policy_validation import IAMPolicyDocumentValidator

from tests.documented import the_block, typed
from tests.e2e.deployer import CORE, FOLDER, INSTALLATION, statements
from tests.e2e.privileges import Need, actions, allows

AREAS = sorted(path.stem for path in FOLDER.glob("*.json"))
MOST_CHARACTERS = 6144  # of a managed policy, white space apart
LONGEST_NAME = "a-name-of-20-letters"

OF_APPLYING = [area for area in AREAS if area != "aws_check"]  # which runs jobs, too

ANYTHING = {
    ("aws_check", "Look"): "they take no resource, or list all that there is",
    ("aws_check", "WhyAJobWaits"): "Auto Scaling groups and clusters are named by Batch",
    ("compute", "Look"): "they take no resource",
    ("multi_node", "Look"): "they take no resource",
    ("network", "Look"): "they take no resource",
    ("network", "NameEndpoints"): "the zone is AWS's own",
    ("services", "LetEventsWriteLogs"): "they take no resource",
    ("services", "Look"): "they take no resource",
    ("services", "Subscriptions"): "they take no resource",
    ("services", "TagTheDatabase"): "they take no database",
}


@pytest.mark.parametrize("area", AREAS)
def test_a_policy_is_one_that_iam_takes(area):
    for name in ("batchmark", LONGEST_NAME):
        document = {"Version": "2012-10-17", "Statement": statements(area, name=name)}
        IAMPolicyDocumentValidator(json.dumps(document)).validate()
        assert len("".join(json.dumps(document).split())) <= MOST_CHARACTERS
    names = [statement["Sid"] for statement in statements(area)]
    assert len(names) == len(set(names))


def test_no_action_has_a_wildcard_and_no_statement_is_of_anything_but_for_a_reason():
    found = [(area, statement) for area in AREAS for statement in statements(area)]
    named = [action for _, statement in found for action in actions(statement)]
    assert [action for action in named if "*" in action] == []
    assert {
        (area, statement["Sid"])
        for area, statement in found
        if statement["Resource"] == "*" and "Condition" not in statement
    } == set(ANYTHING)


def test_the_documented_command_makes_each_policy_with_the_names_put_in():
    shown = 'aws() { printf "%s\\0" "${@: -1}"; }\n'  # what the AWS CLI would be given last
    lines = "\n".join(the_block("name=batchmark-min"))
    for name in ("batchmark", "batchmark-min"):
        said = typed(shown + lines.replace("batchmark-min", name), FOLDER.parent, {})
        made = [json.loads(document)["Statement"] for document in said.split("\0")[:-1]]
        assert made == [statements(area, name=name) for area in CORE]


ACCOUNT = "arn:aws:iam::123456789012"
KEY = "arn:aws:kms:us-east-1:123456789012:key/0123"
VPC = "arn:aws:ec2:us-east-1:123456789012:vpc/vpc-0123"
ANOTHERS = ((f"aws:ResourceTag/{INSTALLATION}", ("another",)),)
OURS = ((f"aws:ResourceTag/{INSTALLATION}", ("batchmark",)),)
ASKED = ((f"aws:RequestTag/{INSTALLATION}", ("batchmark",)),)


def to(service, key="iam:PassedToService"):
    return ((key, (f"{service}.amazonaws.com",)),)


@pytest.mark.parametrize(
    "beyond",
    [
        Need("iam:CreateUser", f"{ACCOUNT}:user/batchmark-user"),
        Need("iam:CreateAccessKey", f"{ACCOUNT}:user/anybody"),
        Need("iam:PutRolePolicy", f"{ACCOUNT}:role/administrator"),
        Need("iam:PassRole", f"{ACCOUNT}:role/administrator", to("ec2")),
        Need("iam:PassRole", f"{ACCOUNT}:role/batchmark-job", to("lambda")),
        Need("iam:CreatePolicyVersion", f"{ACCOUNT}:policy/deployer-of-batchmark-compute"),
        Need(
            "iam:CreateServiceLinkedRole",
            f"{ACCOUNT}:role/aws-service-role/lex.amazonaws.com/AWSServiceRoleForLex",
            to("lex", "iam:AWSServiceName"),
        ),
        Need("s3:DeleteBucket", "arn:aws:s3:::another-results-123456789012-us-east-1"),
        Need("s3:GetObject", "arn:aws:s3:::batchmark-results-123456789012-us-east-1/raw/a.json"),
        Need("ec2:CreateVpc", VPC),
        Need("ec2:DeleteVpc", VPC),
        Need("ec2:DeleteVpc", VPC, ANOTHERS),
        # GuardDuty's, whose tag is of no network: the guards of them all
        Need(
            "ec2:DeleteVpcEndpoints",
            "arn:aws:ec2:us-east-1:123456789012:vpc-endpoint/vpce-0123",
            (("aws:ResourceTag/GuardDutyManaged", ("true",)),),
        ),
        Need("ec2:CreateTags", VPC, ASKED),
        Need("ec2:RunInstances", "arn:aws:ec2:us-east-1:123456789012:instance/new"),
        Need("kms:ScheduleKeyDeletion", KEY),
        Need("kms:ScheduleKeyDeletion", KEY, ANOTHERS),
        Need("kms:Decrypt", KEY, OURS),
        Need("batch:SubmitJob", "arn:aws:batch:us-east-1:123456789012:job-queue/batchmark-a"),
        Need("ssm:GetParameter", "arn:aws:ssm:us-east-1:123456789012:parameter/another"),
    ],
)
def test_what_applying_never_takes_is_refused(beyond):
    assert not allows(statements(*OF_APPLYING), beyond)


@pytest.mark.parametrize(
    "within",
    [
        Need("iam:PutRolePolicy", f"{ACCOUNT}:role/research/batchmark-job-1"),
        Need("iam:PassRole", f"{ACCOUNT}:role/research/batchmark-job-1", to("ecs-tasks")),
        Need("ec2:DeleteVpc", VPC, OURS),
        Need("ec2:CreateTags", VPC, (*ASKED, ("ec2:CreateAction", ("CreateVpc",)))),
        Need("kms:ScheduleKeyDeletion", KEY, OURS),
    ],
)
def test_the_same_of_our_own_is_allowed(within):
    assert allows(statements(*CORE), within)
