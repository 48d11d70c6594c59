"""What recorded calls take, and whether policies allow it."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import NamedTuple

from moto.iam.access_control import IAMPolicy, PermissionResult

# Operations whose action has another name.
ACTIONS = {
    "s3:CompleteMultipartUpload": "s3:PutObject",
    "s3:CreateMultipartUpload": "s3:PutObject",
    "s3:HeadBucket": "s3:ListBucket",
    "s3:HeadObject": "s3:GetObject",
    "s3:ListObjectsV2": "s3:ListBucket",
    "s3:UploadPart": "s3:PutObject",
}

# Of uploads in parts, before the one call that makes the object.
PARTS = ("s3:CreateMultipartUpload", "s3:UploadPart")
CREATES_OBJECT = "s3:ObjectCreationOperation"

# What these calls make; no call names it.
MADE = {
    "fsx:CreateDataRepositoryAssociation": "association/fs-0123/dra-0123",
    "fsx:CreateFileSystem": "file-system/fs-0123",
}


# They name their cluster, too, but are allowed by the resources in it.
IN_CLUSTERS = ("ecs:DescribeContainerInstances", "ecs:DescribeTasks")


class Need(NamedTuple):
    """An action on a resource, and the values of condition keys: hashable, for most repeat."""

    action: str
    resource: str
    conditions: tuple[tuple[str, tuple[str, ...]], ...] = ()


def needs(call):
    """What a recorded call takes; "*" is the resource of one that names none."""
    operation = f"{call['service']}:{call['operation']}"
    conditions = tuple((key, tuple(values)) for key, values in call["conditions"].items())
    if ACTIONS.get(operation, operation) == "s3:PutObject":
        conditions += ((CREATES_OBJECT, (str(operation not in PARTS).lower(),)),)
    found = {
        Need(ACTIONS.get(operation, operation), resource, conditions)
        for resource in call["resources"] or ["*"]
        if not (operation in IN_CLUSTERS and ":cluster/" in resource)
    }
    if operation in MADE:
        made = f"arn:aws:fsx:us-east-1:123456789012:{MADE[operation]}"
        found.discard(Need(operation, "*", conditions))
        found.add(Need(operation, made, conditions))
        if "aws:TagKeys" in call["conditions"]:
            found.add(Need("fsx:TagResource", made, conditions))
    if operation == "batch:SubmitJob" and "aws:TagKeys" in call["conditions"]:
        (queue,) = [arn for arn in call["resources"] if ":job-queue/" in arn]
        job = f"{queue.partition(':job-queue/')[0]}:job/new"
        found.add(Need("batch:TagResource", job, conditions))
    return found


def holds(condition, seen):
    """Whether a statement's condition holds; one of a kind not known here does not."""
    for operator, wanted_by_key in condition.items():
        for key, wanted in wanted_by_key.items():
            patterns = wanted if isinstance(wanted, list) else [wanted]
            values = seen.get(key)
            if operator == "Null":
                ok = patterns == [str(values is None).lower()]
            elif operator in ("Bool", "StringEquals", "ForAllValues:StringLike"):
                ok = all(any(fnmatchcase(value, p) for p in patterns) for value in values or ())
                ok = ok and (values is not None or operator.startswith("ForAllValues"))
            else:
                ok = False
            if not ok:
                return False
    return True


def allows(statements, need):
    applying = [
        {name: value for name, value in statement.items() if name != "Condition"}
        for statement in statements
        if holds(statement.get("Condition", {}), dict(need.conditions))
    ]
    policy = IAMPolicy(json.dumps({"Statement": applying}))
    return policy.is_action_permitted(need.action, need.resource) is PermissionResult.PERMITTED


def actions(statement):
    named = statement["Action"]
    return [named] if isinstance(named, str) else named


def with_the_resources_tags(call, aws):
    """The call with the tags of what it ends, which AWS looks up by itself."""
    ids = [arn.rpartition("/")[2] for arn in call["resources"]]
    if call["operation"] == "TerminateJob":
        (job,) = aws.client("batch").describe_jobs(jobs=ids)["jobs"]
        tags = job["tags"]
    elif call["operation"] == "TerminateInstances":
        (reservation,) = aws.client("ec2").describe_instances(InstanceIds=ids)["Reservations"]
        tags = {tag["Key"]: tag["Value"] for tag in reservation["Instances"][0]["Tags"]}
    else:
        return call
    found = {f"aws:ResourceTag/{key}": [value] for key, value in tags.items()}
    return {**call, "conditions": {**call["conditions"], **found}}


def airflow_statements(stack, aws):
    """All that Airflow may do, as IAM has it."""
    iam = aws.client("iam")
    documents = []
    for arn in stack.terraform.outputs()["airflow_policy_arns"].values():
        version = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
        answer = iam.get_policy_version(PolicyArn=arn, VersionId=version)
        documents.append(answer["PolicyVersion"]["Document"])
    return [statement for policy in documents for statement in policy["Statement"]]
