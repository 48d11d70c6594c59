"""An AWS account for environment_check, healthy unless a test changes it."""

import json

from batchmark.aws.instance_families import vcpu_quota
from batchmark.checks.environment import check_environment
from tests.builders.leaks import ARN, IMAGE, NOW, PROFILE, REGION, ROLE, config
from tests.stand_ins.diagnosis_answers import container, environment, queue
from tests.stand_ins.stubbed_clients import StubbedClients

CONFIG = config()
QUOTAS = {"L-3819A6DF": 16.0, "L-DB2E81BA": 16.0, "L-34B43A08": 16.0, "L-1216C47A": 16.0}
NAMES = ("g5.xlarge", "c5.2xlarge")
BOTH = "g5.xlarge, c5.2xlarge"
# Batch's type of image by target; where AWS says which AMI is recommended, and of each what it is.
IMAGE_TYPES = {"g5.xlarge": "ECS_AL2023_NVIDIA", "c5.2xlarge": "ECS_AL2023"}
AMIS = "/aws/service/ecs/optimized-ami/amazon-linux-2023/"
AMI_FOLDERS = {"ECS_AL2023_NVIDIA": f"{AMIS}gpu/", "ECS_AL2023": AMIS}
AMI = "ami-0ca77a28d8801702a"


def healthy():
    """Return AWS's answers about CONFIG by question."""
    environments = {
        name: environment(
            name,
            computeEnvironmentArn=f"{ARN}:compute-environment/{name}",
            resources={
                "maxvCpus": 64,
                "instanceRole": PROFILE,
                "ec2Configuration": [ami_of(target.instance_type)],
            },
        )
        for target in CONFIG.targets.values()
        for name in (target.compute_environments.spot, target.compute_environments.on_demand)
    }
    queues = {}
    for name, target in CONFIG.targets.items():
        orders = {target.job_queue: ["spot", "on-demand"], target.on_demand_queue: ["on-demand"]}
        for arn, order in orders.items():
            tries = [f"{ARN}:compute-environment/{name}-{purchase}" for purchase in order]
            queues[arn] = queue(
                jobQueueName=arn.rpartition("/")[2],
                jobQueueArn=arn,
                computeEnvironmentOrder=[
                    {"order": number, "computeEnvironment": one}
                    for number, one in enumerate(tries, 1)
                ],
            )
    definitions = {}
    for name, target in CONFIG.targets.items():
        definitions[name] = {
            "jobDefinitionName": f"lab-{name.replace('.', '-')}",
            "jobDefinitionArn": target.job_definition,
            "revision": 3,
            "status": "ACTIVE",
            "type": "container",
            "retryStrategy": {"attempts": 3},
            "timeout": {"attemptDurationSeconds": 3600},
            "containerProperties": {
                **container(target.vcpus, target.memory_mib, target.gpus, IMAGE),
                "jobRoleArn": f"{ROLE}/lab-job-1",
                "executionRoleArn": f"{ROLE}/lab-execution-1",
            },
        }
    return {
        "bucket": {},
        "topic": {"Attributes": {}},
        "log group": {"logStreams": []},
        "environments": environments,
        "recommended": dict.fromkeys(AMI_FOLDERS, ami_document()),
        "queues": queues,
        "definitions": definitions,
        "newest": dict.fromkeys(NAMES, 3),
        "image": {"imageDetails": [{"imagePushedAt": NOW}]},
        "scan": {
            "imageScanStatus": {"status": "COMPLETE"},
            "imageScanFindings": {"findingSeverityCounts": {"MEDIUM": 3}},
        },
        "role": {
            "Role": {
                "Path": "/",
                "RoleName": "lab-job-1",
                "RoleId": "AROA0123456789012345",
                "Arn": f"{ROLE}/lab-job-1",
                "CreateDate": NOW,
            }
        },
        "profile": {
            "InstanceProfile": {
                "Path": "/",
                "InstanceProfileName": "lab-instance-1",
                "InstanceProfileId": "AIPA0123456789012345",
                "Arn": PROFILE,
                "CreateDate": NOW,
                "Roles": [],
            }
        },
        "vcpus": {"g5.xlarge": 4, "c5.2xlarge": 8},
        "quotas": dict(QUOTAS),
    }


def ami_of(name, ami=AMI):
    """The ec2Configuration of a target; with imageIdOverride Batch gives no batchImageStatus."""
    return {"imageType": IMAGE_TYPES[name], "imageIdOverride": ami}


def ami_document(ami=AMI, day="20260922"):
    """What AWS's public parameter says of an AMI."""
    return {"image_id": ami, "image_name": f"al2023-ami-ecs-hvm-2023.0.{day}-kernel-6.1-x86_64"}


class Refused(str):
    """An AWS error's code, in place of an answer."""

    __slots__ = ()


def answer(clients, service, method, given, asked=None):
    if isinstance(given, Refused):
        clients.refuse(service, method, given, "said AWS")
    else:
        clients.answer(service, method, given, asked)


def stated(given, key, names):
    """Return an answer that lists the values of these names; an error stays one."""
    return given if isinstance(given, Refused) else {key: [given[name] for name in names]}


def check(account, targets=NAMES, well=True, foreign=False, own_jobs=False):
    """Check against an account with these answers; `well` if every question has to be asked."""
    clients = StubbedClients(REGION)
    answer_published(clients, account)
    answer_batch(clients, account, targets, newest=not foreign)
    answer_image(clients, account)
    if not foreign:
        answer_amis(clients, account, targets)
        answer_roles(clients, account)
    answer_quotas(clients, account, targets)
    result = check_environment(
        CONFIG, clients, targets=targets, now=NOW, foreign=foreign, own_jobs=own_jobs
    )
    if well:
        clients.assert_all_was_asked()
    return result


def answer_amis(clients, account, targets):
    given = account["recommended"]
    if isinstance(given, Refused):  # once: nothing more is asked of SSM then
        clients.refuse("ssm", "get_parameters", given, "said AWS")
        return
    for image_type in (IMAGE_TYPES[name] for name in targets):
        names = [AMI_FOLDERS[image_type] + name for name in ("recommended", AMI)]
        documents = [given[image_type], account.get("used", ami_document())]
        found = [
            {"Name": name, "Value": json.dumps(document)}
            for name, document in zip(names, documents, strict=True)
            if document
        ]
        answer(clients, "ssm", "get_parameters", {"Parameters": found}, {"Names": names})


def answer_roles(clients, account):
    for _ in range(2):
        answer(clients, "iam", "get_role", account["role"])
    asked = {"InstanceProfileName": "lab-instance-1"}
    answer(clients, "iam", "get_instance_profile", account["profile"], asked)


def answer_published(clients, account):
    answer(clients, "s3", "head_bucket", account["bucket"], {"Bucket": "results"})
    answer(clients, "sns", "get_topic_attributes", account["topic"])
    for group in ("/aws/batch/lab", "/aws/events/batch/lab"):
        asked = {"logGroupName": group, "limit": 1}
        answer(clients, "logs", "describe_log_streams", account["log group"], asked)


def answer_batch(clients, account, names, *, newest=True):
    targets = [CONFIG.targets[name] for name in names]
    environments, queues = account["environments"], account["queues"]
    there = [name for name in environments if name.startswith(names)]
    given = stated(environments, "computeEnvironments", there)
    answer(clients, "batch", "describe_compute_environments", given)
    asked = [arn for target in targets for arn in (target.job_queue, target.on_demand_queue)]
    given = stated(queues, "jobQueues", [arn for arn in asked if arn in queues])
    answer(clients, "batch", "describe_job_queues", given, {"jobQueues": asked})
    definitions = account["definitions"]
    there = [name for name in names if name in definitions]
    given = stated(definitions, "jobDefinitions", there)
    asked = {"jobDefinitions": [target.job_definition for target in targets]}
    answer(clients, "batch", "describe_job_definitions", given, asked)
    for name in there if newest else ():
        if definitions[name]["status"] == "ACTIVE":
            last = definitions[name] | {"revision": account["newest"][name]}
            given = {"jobDefinitions": [definitions[name], last]}
            asked = {"jobDefinitionName": last["jobDefinitionName"], "status": "ACTIVE"}
            answer(clients, "batch", "describe_job_definitions", given, asked)


def answer_image(clients, account):
    asked = {
        "registryId": "111122223333",
        "repositoryName": "lab-job",
        "imageIds": [{"imageTag": "0.1.0"}],
    }
    answer(clients, "ecr", "describe_images", account["image"], asked)
    answer(clients, "ecr", "describe_image_scan_findings", account["scan"])
    if "repository" in account:
        answer(clients, "ecr", "describe_repositories", account["repository"])


def answer_quotas(clients, account, targets):
    types = [
        {"InstanceType": name, "VCpuInfo": {"DefaultVCpus": account["vcpus"][name]}}
        for name in account["vcpus"]
        if name in targets
    ]
    answer(clients, "ec2", "describe_instance_types", {"InstanceTypes": types})
    for name in targets:
        for purchase in ("spot", "on_demand"):
            code = vcpu_quota(name, purchase).code
            value = account["quotas"][code]
            given = value if isinstance(value, Refused) else {"Quota": {"Value": value}}
            asked = {"ServiceCode": "ec2", "QuotaCode": code}
            answer(clients, "service-quotas", "get_service_quota", given, asked)


def not_ok(result):
    return [
        (check.name, check.target, check.status, check.seen, check.remedy)
        for check in result.checks
        if check.status != "ok"
    ]
