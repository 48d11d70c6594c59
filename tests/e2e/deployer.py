"""What applying takes: recorded calls of Terraform against the policies in terraform/deployer."""

from __future__ import annotations

import json
from functools import cache

from laptop.stack import ROOT
from tests.e2e import privileges
from tests.e2e.privileges import Need, actions, allows

FOLDER = ROOT / "terraform" / "deployer"
CORE = ("compute", "network", "services")
INSTALLATION = "batchmark:installation"

# Operations whose action has another name.
ACTIONS = privileges.ACTIONS | {
    "budgets:CreateBudget": "budgets:ModifyBudget",
    "budgets:CreateNotification": "budgets:ModifyBudget",
    "budgets:DeleteBudget": "budgets:ModifyBudget",
    "budgets:DescribeBudget": "budgets:ViewBudget",
    "budgets:DescribeNotificationsForBudget": "budgets:ViewBudget",
    "budgets:DescribeSubscribersForNotification": "budgets:ViewBudget",
    "s3:ListBuckets": "s3:ListAllMyBuckets",
    "s3:DeleteBucketEncryption": "s3:PutEncryptionConfiguration",
    "s3:DeleteBucketLifecycle": "s3:PutLifecycleConfiguration",
    "s3:DeleteBucketOwnershipControls": "s3:PutBucketOwnershipControls",
    "s3:DeletePublicAccessBlock": "s3:PutBucketPublicAccessBlock",
    "s3:GetBucketAccelerateConfiguration": "s3:GetAccelerateConfiguration",
    "s3:GetBucketCors": "s3:GetBucketCORS",
    "s3:GetBucketEncryption": "s3:GetEncryptionConfiguration",
    "s3:GetBucketLifecycleConfiguration": "s3:GetLifecycleConfiguration",
    "s3:GetBucketReplication": "s3:GetReplicationConfiguration",
    "s3:GetObjectLockConfiguration": "s3:GetBucketObjectLockConfiguration",
    "s3:GetPublicAccessBlock": "s3:GetBucketPublicAccessBlock",
    "s3:ListObjectVersions": "s3:ListBucketVersions",
    "s3:PutBucketEncryption": "s3:PutEncryptionConfiguration",
    "s3:PutBucketLifecycleConfiguration": "s3:PutLifecycleConfiguration",
    "s3:PutPublicAccessBlock": "s3:PutBucketPublicAccessBlock",
}

# What may be refused, or takes no right.
WITHOUT_RIGHT = {
    "iam:GetUser": "where it is refused the provider asks STS whose account this is",
    "sts:GetCallerIdentity": "everybody may",
}

# The resources that these calls make, and that AWS judges by the tags they get.
MADE = {
    "ec2:AllocateAddress": "elastic-ip",
    "ec2:AuthorizeSecurityGroupEgress": "security-group-rule",
    "ec2:AuthorizeSecurityGroupIngress": "security-group-rule",
    "ec2:CreateFlowLogs": "vpc-flow-log",
    "ec2:CreateInternetGateway": "internet-gateway",
    "ec2:CreateLaunchTemplate": "launch-template",
    "ec2:CreateNatGateway": "natgateway",
    "ec2:CreatePlacementGroup": "placement-group",
    "ec2:CreateRouteTable": "route-table",
    "ec2:CreateSecurityGroup": "security-group",
    "ec2:CreateSubnet": "subnet",
    "ec2:CreateVpc": "vpc",
    "ec2:CreateVpcEndpoint": "vpc-endpoint",
    "kms:CreateKey": "key",
}
# What no call names, but AWS looks up.
LOOKED_UP = {
    "athena:DeleteNamedQuery": "workgroup/{}",
    "athena:GetNamedQuery": "workgroup/{}",
    "ec2:DisassociateAddress": "elastic-ip/eipalloc-0123",
    "ec2:DisassociateRouteTable": "route-table/rtb-0123",
    "sqs:CreateQueue": "{}-inbox",
    "sqs:DeleteMessage": "{}-inbox",
    "sqs:DeleteQueue": "{}-inbox",
    "sqs:GetQueueAttributes": "{}-inbox",
    "sqs:GetQueueUrl": "{}-inbox",
    "sqs:ReceiveMessage": "{}-inbox",
    "sqs:SetQueueAttributes": "{}-inbox",
}

# Which service gets a role that these calls name: inferred, for no call says so.
PASSES_ROLES = {
    "batch:CreateComputeEnvironment": "ec2.amazonaws.com",
    "batch:RegisterJobDefinition": "ecs-tasks.amazonaws.com",
    "ec2:CreateFlowLogs": "vpc-flow-logs.amazonaws.com",
    "eks:CreateCluster": "eks.amazonaws.com",
    "eks:CreateNodegroup": "ec2.amazonaws.com",
    "eks:CreatePodIdentityAssociation": "pods.eks.amazonaws.com",
    "iam:AddRoleToInstanceProfile": "ec2.amazonaws.com",
}

# Tagging is an action of its own, also where a call both makes and tags.
TAGGING = {
    "budgets:CreateBudget": "budgets:TagResource",
    "iam:CreateInstanceProfile": "iam:TagInstanceProfile",
    "iam:CreatePolicy": "iam:TagPolicy",
    "iam:CreateRole": "iam:TagRole",
}
TAGGING_OF = {"sqs": "sqs:TagQueue", "ec2": "ec2:CreateTags", "ssm": "ssm:AddTagsToResource"}

# Of these services AWS judges what is there by its tags.
BY_TAG = ("ec2", "kms")
# EKS's own tag on the security group that it makes for a cluster, as its user guide has it.
OF_A_CLUSTER = "aws:ResourceTag/aws:eks:cluster-name"

# What is allowed and in no recorded call.
NOT_RECORDED = {
    "only when a tag is taken away": [
        *("athena:UntagResource", "batch:UntagResource", "budgets:UntagResource"),
        *("cloudwatch:UntagResource", "ec2:DeleteTags", "ecr:UntagResource", "eks:UntagResource"),
        *("events:UntagResource", "glue:UntagResource", "iam:UntagInstanceProfile"),
        *("iam:UntagPolicy", "iam:UntagRole", "kms:UntagResource", "logs:UntagResource"),
        *("sns:UntagResource", "ssm:RemoveTagsFromResource"),
    ],
    "only when a later release, or a variable, changes it in place": [
        *("athena:UpdateNamedQuery", "athena:UpdateWorkGroup"),
        *("eks:DescribeUpdate", "eks:UpdateAccessEntry", "eks:UpdateAddon"),
        *("eks:UpdateClusterConfig", "eks:UpdateClusterVersion", "eks:UpdateNodegroupConfig"),
        *("eks:UpdateNodegroupVersion", "eks:UpdatePodIdentityAssociation"),
        *("glue:UpdateDatabase", "iam:DeleteRolePermissionsBoundary"),
        *("iam:PutRolePermissionsBoundary", "iam:UpdateAssumeRolePolicy", "iam:UpdateRole"),
        *("iam:UpdateRoleDescription", "kms:UpdateKeyDescription"),
        *("logs:AssociateKmsKey", "logs:DisassociateKmsKey"),
    ],
    "changed in tests/e2e/test_terraform_lifecycle.py": [
        *("ec2:CreateLaunchTemplateVersion", "ec2:ModifyLaunchTemplate"),
    ],
    "`make image`": [
        *("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:CompleteLayerUpload"),
        *("ecr:DescribeImages", "ecr:GetAuthorizationToken", "ecr:InitiateLayerUpload"),
        *("ecr:PutImage", "ecr:UploadLayerPart"),
    ],
    "only when a bucket with something in it is destroyed": [
        *("s3:DeleteObject", "s3:DeleteObjectVersion", "s3:ListBucketVersions"),
    ],
    "AWS asks for it beside a call: a role's first use, ECR's use of a key, an endpoint's name, "
    "a node group's launch template": [
        *("ec2:RunInstances", "iam:CreateServiceLinkedRole", "kms:CreateGrant"),
        *("kms:RetireGrant", "route53:AssociateVPCWithHostedZone"),
    ],
    "docs/first-apply.md, to ask for quotas": ["servicequotas:ListServiceQuotas"],
}
EXCUSED = {action for listed in NOT_RECORDED.values() for action in listed}


@cache
def statements(*of_areas, name="batchmark"):
    """Those of these files, with the names that the documented command puts in."""
    found = []
    for area in of_areas:
        text = (FOLDER / f"{area}.json").read_text().replace("NAME", name)
        found += json.loads(text.replace("DATABASE", name.replace("-", "_")))["Statement"]
    return found


def recorded(calls, principal="terraform"):
    """Terraform's calls, or another's, in a file of the local cloud's."""
    lines = map(json.loads, calls.read_text().splitlines())
    return [line for line in lines if line["access_key_id"] == principal]


def needed(calls):
    """The installation's name, and what its calls take of whoever applies it."""
    given = [call["conditions"].get(f"aws:RequestTag/{INSTALLATION}") for call in calls]
    ((name,),) = {tuple(values) for values in given if values}
    operations = {f"{call['service']}:{call['operation']}" for call in calls}
    # Nothing may be made without the tag, so all that these calls can have made has it.
    tagged = {MADE[operation] for operation in operations & set(MADE)}
    return name, {need for call in calls for need in _needs(call, name, tagged)}


def refused(calls, *further):
    """What the policies for the core stack, and these further ones, don't allow."""
    name, needs = needed(calls)
    allowed = statements(*CORE, *further, name=name)
    return {need for need in needs if not allows(allowed, need)}


def unused(needs, *of_areas):
    """The actions that these files allow, nothing needs, and no reason excuses."""
    allowed = {action for statement in statements(*of_areas) for action in actions(statement)}
    return allowed - {need.action for need in needs} - EXCUSED


def idle(calls):
    """The core stack's statements without which all these calls are allowed, too."""
    name, needs = needed(calls)
    found = set()
    for area in CORE:
        for statement in statements(area, name=name):
            concerned = [need for need in needs if need.action in actions(statement)]
            others = [other for other in statements(*CORE, name=name) if other != statement]
            if all(allows(others, need) for need in concerned):
                found.add((area, statement["Sid"]))
    return found


def _needs(call, name, tagged):
    service, operation = call["service"], f"{call['service']}:{call['operation']}"
    if operation in WITHOUT_RIGHT:
        return
    action = ACTIONS.get(operation, operation)
    asked = tuple((key, tuple(values)) for key, values in call["conditions"].items())
    ours = ((f"aws:ResourceTag/{INSTALLATION}", (name,)),)
    theirs = ((OF_A_CLUSTER, (f"{name}-gpu-sharing",)),)
    scope = f"arn:aws:{service}:us-east-1:123456789012:"
    named = _judged(service, call["resources"])
    if operation in LOOKED_UP:
        named.append(scope + LOOKED_UP[operation].format(name))
    if service == "glue" and named:
        named.append(f"{scope}catalog")
    # Tagged by a call of its own is only the VPC's default group, which AWS has made.
    for arn in named or ([] if operation in MADE else ["*"]):
        if service in BY_TAG and operation != "ec2:CreateTags":
            has_tag = arn.rpartition(":")[2].partition("/")[0] in tagged
            yield Need(action, arn, ours if has_tag else theirs)
        else:
            yield Need(action, arn, asked)
    made = [f"{scope}{MADE[operation]}/made"] if operation in MADE else named
    if operation in MADE:
        yield Need(action, *made, asked)
    if "aws:TagKeys" in call["conditions"] and operation != "ec2:CreateTags":
        tagging = TAGGING.get(operation, TAGGING_OF.get(service, f"{service}:TagResource"))
        create = (("ec2:CreateAction", (call["operation"],)),) if service == "ec2" else ()
        for arn in made:
            yield Need(tagging, arn, asked + create)
    if operation in PASSES_ROLES:
        to = ("iam:PassedToService", (PASSES_ROLES[operation],))
        yield Need("iam:PassRole", f"arn:aws:iam::123456789012:role/{name}-any", (to,))


def _judged(service, resources):
    """Those of the service; of IAM's, which name what they put together, the first kind alone."""
    of = "iam" if service == "sts" else service
    own = [arn for arn in resources if arn.startswith(f"arn:aws:{of}:")]
    for kind in (":instance-profile/", ":role/") if service == "iam" else ():
        if of_kind := [arn for arn in own if kind in arn]:
            return of_kind
    return own
