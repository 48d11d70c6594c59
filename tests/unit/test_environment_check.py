"""What the environment check says of an installation that is well, and of what is not."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from batchmark.batch_environment import BatchEnvironment, Image
from batchmark.environment_check import APPLY, check_environment
from batchmark.guard_terminal import check_table
from batchmark.quota_check import check_quotas
from batchmark.vcpu_quotas import vcpu_quota
from tests.unit.guard_builders import ARN, IMAGE, NOW, PROFILE, REGION, ROLE, config, queue_arn
from tests.unit.stubbed_clients import StubbedClients

CONFIG = config()
QUOTAS = {"L-3819A6DF": 16.0, "L-DB2E81BA": 16.0, "L-34B43A08": 16.0, "L-1216C47A": 16.0}
NAMES = ("g5.xlarge", "c5.2xlarge")


def healthy():
    """What AWS answers of CONFIG, by question."""
    environments = {
        name: {
            "computeEnvironmentName": name,
            "computeEnvironmentArn": f"{ARN}:compute-environment/{name}",
            "ecsClusterArn": "arn:cluster",
            "state": "ENABLED",
            "status": "VALID",
            "statusReason": "ComputeEnvironment Healthy",
            "computeResources": {
                "type": "EC2",
                "maxvCpus": 64,
                "subnets": ["subnet-1"],
                "instanceRole": PROFILE,
            },
        }
        for target in CONFIG.targets.values()
        for name in (target.compute_environments.spot, target.compute_environments.on_demand)
    }
    queues = {}
    for name, target in CONFIG.targets.items():
        orders = {target.job_queue: ["spot", "on-demand"], target.on_demand_queue: ["on-demand"]}
        for arn, order in orders.items():
            queues[arn] = {
                "jobQueueName": arn.rpartition("/")[2],
                "jobQueueArn": arn,
                "state": "ENABLED",
                "status": "VALID",
                "priority": 1,
                "computeEnvironmentOrder": [
                    {
                        "order": number,
                        "computeEnvironment": f"{ARN}:compute-environment/{name}-{purchase}",
                    }
                    for number, purchase in enumerate(order, 1)
                ],
            }
    definitions = {}
    for name, target in CONFIG.targets.items():
        requirements = [
            {"type": "VCPU", "value": str(target.vcpus)},
            {"type": "MEMORY", "value": str(target.memory_mib)},
        ]
        if target.gpus:
            requirements.append({"type": "GPU", "value": str(target.gpus)})
        definitions[name] = {
            "jobDefinitionName": f"lab-{name.replace('.', '-')}",
            "jobDefinitionArn": target.job_definition,
            "revision": 3,
            "status": "ACTIVE",
            "type": "container",
            "retryStrategy": {"attempts": 3},
            "timeout": {"attemptDurationSeconds": 3600},
            "containerProperties": {
                "image": IMAGE,
                "jobRoleArn": f"{ROLE}/lab-job-1",
                "executionRoleArn": f"{ROLE}/lab-execution-1",
                "resourceRequirements": requirements,
            },
        }
    return {
        "bucket": {},
        "topic": {"Attributes": {}},
        "log group": {"logStreams": []},
        "environments": environments,
        "queues": queues,
        "definitions": definitions,
        "newest": dict.fromkeys(NAMES, 3),
        "image": {"imageDetails": [{"imagePushedAt": NOW}]},
        "scan": {
            "imageScanStatus": {"status": "COMPLETE"},
            "imageScanFindings": {"findingSeverityCounts": {"MEDIUM": 3}},
        },
        "role": {"Role": role()},
        "profile": {"InstanceProfile": profile()},
        "vcpus": {"g5.xlarge": 4, "c5.2xlarge": 8},
        "quotas": dict(QUOTAS),
    }


def role():
    return {
        "Path": "/",
        "RoleName": "lab-job-1",
        "RoleId": "AROA0123456789012345",
        "Arn": f"{ROLE}/lab-job-1",
        "CreateDate": NOW,
    }


def profile():
    return {
        "Path": "/",
        "InstanceProfileName": "lab-instance-1",
        "InstanceProfileId": "AIPA0123456789012345",
        "Arn": PROFILE,
        "CreateDate": NOW,
        "Roles": [],
    }


class Refused(str):
    """Stands where an answer stands: AWS's error code instead of it."""

    __slots__ = ()


def answer(clients, service, method, given, asked=None):
    if isinstance(given, Refused):
        clients.refuse(service, method, given, "said AWS")
    else:
        clients.answer(service, method, given, asked)


def stated(given, key, by):
    """An answer that lists values; an error stays one."""
    return given if isinstance(given, Refused) else {key: [given[name] for name in by]}


def check(account, targets=NAMES, well=True):
    """Check against an account that answers so; `well` where every question is asked."""
    clients = StubbedClients(REGION)
    chosen = {name: CONFIG.targets[name] for name in targets}
    answer(clients, "s3", "head_bucket", account["bucket"], {"Bucket": "results"})
    answer(clients, "sns", "get_topic_attributes", account["topic"])
    for group in ("/aws/batch/lab", "/aws/events/batch/lab"):
        asked = {"logGroupName": group, "limit": 1}
        answer(clients, "logs", "describe_log_streams", account["log group"], asked)

    given = account["environments"]
    there = [name for name in given if name.startswith(targets)]
    given = stated(given, "computeEnvironments", there)
    answer(clients, "batch", "describe_compute_environments", given)
    given = account["queues"]
    asked = [arn for one in chosen.values() for arn in (one.job_queue, one.on_demand_queue)]
    there = [arn for arn in asked if arn in given]
    given = stated(given, "jobQueues", there)
    answer(clients, "batch", "describe_job_queues", given, {"jobQueues": asked})
    definitions = account["definitions"]
    there = [name for name in targets if name in definitions]
    answer(
        clients,
        "batch",
        "describe_job_definitions",
        stated(definitions, "jobDefinitions", there),
        {"jobDefinitions": [one.job_definition for one in chosen.values()]},
    )
    for name in there:
        if definitions[name]["status"] == "ACTIVE":
            newest = definitions[name] | {"revision": account["newest"][name]}
            answer(
                clients,
                "batch",
                "describe_job_definitions",
                {"jobDefinitions": [definitions[name], newest]},
                {"jobDefinitionName": newest["jobDefinitionName"], "status": "ACTIVE"},
            )
    images = {
        "registryId": "111122223333",
        "repositoryName": "lab-job",
        "imageIds": [{"imageTag": "0.1.0"}],
    }
    answer(clients, "ecr", "describe_images", account["image"], images)
    answer(clients, "ecr", "describe_image_scan_findings", account["scan"])
    if "repository" in account:
        answer(clients, "ecr", "describe_repositories", account["repository"])
    for _ in range(2):
        answer(clients, "iam", "get_role", account["role"])
    asked = {"InstanceProfileName": "lab-instance-1"}
    answer(clients, "iam", "get_instance_profile", account["profile"], asked)
    vcpus = [
        {"InstanceType": name, "VCpuInfo": {"DefaultVCpus": count}}
        for name, count in account["vcpus"].items()
        if name in targets
    ]
    answer(clients, "ec2", "describe_instance_types", {"InstanceTypes": vcpus})
    for name in targets:
        for purchase in ("spot", "on_demand"):
            code = vcpu_quota(name, purchase).code
            value = account["quotas"][code]
            given = value if isinstance(value, Refused) else {"Quota": {"Value": value}}
            asked = {"ServiceCode": "ec2", "QuotaCode": code}
            answer(clients, "service-quotas", "get_service_quota", given, asked)
    result = check_environment(CONFIG, clients, targets=targets, now=NOW)
    if well:
        clients.assert_all_was_asked()
    return result


def not_ok(result):
    return [
        (one.name, one.target, one.status, one.seen, one.remedy)
        for one in result.checks
        if one.status != "ok"
    ]


def test_all_is_well():
    result = check(healthy())
    assert not_ok(result) == []
    assert result.summary == f"{len(result.checks)} ok"
    assert result.failures() == ""
    assert next(one.seen for one in result.checks if one.name == "vCPU quota") == (
        "All G and VT Spot Instance Requests (L-3819A6DF): 16 vCPUs."
    )
    assert {one.name for one in result.checks} == {
        "bucket",
        "topic",
        "log group",
        "compute environment",
        "job queue",
        "job definition",
        "image",
        "image scan",
        "job role",
        "execution role",
        "instance profile",
        "vCPU quota",
    }


def test_only_the_targets_asked_for_are_checked():
    result = check(healthy(), targets=("c5.2xlarge",))
    assert not_ok(result) == []
    assert {one.target for one in result.checks} == {"all", "c5.2xlarge"}


BOTH = "g5.xlarge, c5.2xlarge"


def environment(**changes):
    return lambda account: account["environments"]["g5.xlarge-spot"].update(changes)


def queue(**changes):
    return lambda account: account["queues"][queue_arn("g5.xlarge")].update(changes)


def definition(**changes):
    return lambda account: account["definitions"]["g5.xlarge"].update(changes)


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (
            lambda account: account["environments"].pop("g5.xlarge-spot"),
            ("compute environment", "fail", "g5.xlarge-spot does not exist.", APPLY),
        ),
        (
            environment(state="DISABLED"),
            (
                "compute environment",
                "fail",
                "g5.xlarge-spot is DISABLED and VALID: ComputeEnvironment Healthy",
                "Enable it in the Batch console, or `terraform apply`.",
            ),
        ),
        (
            environment(status="INVALID", statusReason="CLIENT_ERROR - no such subnet"),
            (
                "compute environment",
                "fail",
                "g5.xlarge-spot is ENABLED and INVALID: CLIENT_ERROR - no such subnet",
                "Mend what its reason names, then `terraform apply`.",
            ),
        ),
        (
            environment(status="UPDATING", statusReason="changing"),
            (
                "compute environment",
                "warn",
                "g5.xlarge-spot is ENABLED and UPDATING: changing",
                "Wait until the change is done.",
            ),
        ),
        (
            environment(computeResources={"type": "SPOT", "maxvCpus": 2, "subnets": []}),
            (
                "compute environment",
                "fail",
                "g5.xlarge-spot may have 2 vCPUs, and a job asks for 4.",
                "Raise max_vcpus in target_overrides.",
            ),
        ),
        (
            lambda account: account["queues"].pop(queue_arn("g5.xlarge")),
            ("job queue", "fail", f"{queue_arn('g5.xlarge')} does not exist.", APPLY),
        ),
        (
            queue(state="DISABLED"),
            (
                "job queue",
                "fail",
                "lab-g5-xlarge is DISABLED and VALID: no reason given",
                "Enable it in the Batch console, or `terraform apply`.",
            ),
        ),
        (
            queue(computeEnvironmentOrder=[{"order": 1, "computeEnvironment": "g5.xlarge-spot"}]),
            (
                "job queue",
                "fail",
                "lab-g5-xlarge tries g5.xlarge-spot; published: g5.xlarge-spot, "
                "g5.xlarge-on-demand.",
                APPLY,
            ),
        ),
        (
            lambda account: account["definitions"].pop("g5.xlarge"),
            ("job definition", "fail", "lab-g5-xlarge:3 is not there.", APPLY),
        ),
        (
            definition(status="INACTIVE"),
            ("job definition", "fail", "lab-g5-xlarge:3 is INACTIVE.", APPLY),
        ),
        (
            lambda account: account["newest"].update({"g5.xlarge": 4}),
            (
                "job definition",
                "warn",
                "lab-g5-xlarge:3 is ACTIVE; revision 4 is newer.",
                APPLY,
            ),
        ),
        (
            definition(timeout={"attemptDurationSeconds": 60}, retryStrategy={}),
            (
                "job definition",
                "warn",
                "lab-g5-xlarge:3 is ACTIVE; it has 1 attempts, published are 3; it has 60 seconds "
                "a try, published are 3600.",
                APPLY,
            ),
        ),
    ],
)
def test_what_is_wrong_with_a_target_is_said(change, seen):
    account = healthy()
    change(account)
    name, status, text, remedy = seen
    result = check(account, well=False)
    assert (name, "g5.xlarge", status, text, remedy) in not_ok(result)
    assert (f"{name} of g5.xlarge: {text} Remedy: {remedy}" in result.failures()) is (
        status == "fail"
    )


@pytest.mark.parametrize(
    ("key", "code", "name", "target", "seen"),
    [
        ("bucket", "404", "bucket", "all", "results does not exist."),
        (
            "topic",
            "NotFound",
            "topic",
            "all",
            f"arn:aws:sns:{REGION}:111122223333:lab-alerts does not exist.",
        ),
        (
            "log group",
            "ResourceNotFoundException",
            "log group",
            "all",
            "/aws/batch/lab does not exist.",
        ),
        ("role", "NoSuchEntity", "execution role", BOTH, "lab-execution-1 does not exist."),
        ("profile", "NoSuchEntity", "instance profile", BOTH, "lab-instance-1 does not exist."),
    ],
)
def test_what_is_published_and_is_not_there_fails(key, code, name, target, seen):
    result = check(healthy() | {key: Refused(code)})
    assert (name, target, "fail", seen, APPLY) in not_ok(result)


@pytest.mark.parametrize("code", ["ImageNotFoundException", "RepositoryNotFoundException"])
def test_a_missing_image_fails_and_says_how_to_make_one(code):
    result = check(healthy() | {"image": Refused(code)}, well=False)
    assert not_ok(result) == [
        ("image", BOTH, "fail", f"{IMAGE} is not in ECR.", "`make image`, then `terraform apply`.")
    ]


def test_an_image_from_elsewhere_is_not_checked():
    account = healthy()
    for name in NAMES:
        account["definitions"][name]["containerProperties"]["image"] = "python:3.11"
    seen = f"'python:3.11' is no image of ECR in {REGION}."
    assert not_ok(check(account, well=False)) == [("image", BOTH, "not checked", seen, "")]


SCAN_IT = "Scan it in the ECR console."


@pytest.mark.parametrize(
    ("scan", "scans_on_push", "seen", "remedy"),
    [
        (
            {
                "imageScanStatus": {"status": "ACTIVE"},
                "imageScanFindings": {"findingSeverityCounts": {"CRITICAL": 2, "HIGH": 5}},
            },
            None,
            "The scan found 2 critical, 5 high finding(s).",
            "Read them in the ECR console; `make image` builds on today's packages.",
        ),
        (
            {"imageScanStatus": {"status": "IN_PROGRESS"}},
            None,
            "The scan is IN_PROGRESS: no reason given",
            "",
        ),
        (
            Refused("ScanNotFoundException"),
            True,
            "This image was not scanned; its repository scans on push.",
            SCAN_IT,
        ),
        (
            Refused("ScanNotFoundException"),
            False,
            "This image was not scanned: its repository does not scan on push.",
            "Switch scanning on in ECR.",
        ),
    ],
)
def test_what_a_scan_found_is_said_and_stops_nothing(scan, scans_on_push, seen, remedy):
    account = healthy() | {"scan": scan}
    if scans_on_push is not None:
        configuration = {"imageScanningConfiguration": {"scanOnPush": scans_on_push}}
        account["repository"] = {"repositories": [configuration]}
    assert not_ok(check(account)) == [("image scan", BOTH, "warn", seen, remedy)]


SPOT_G = "All G and VT Spot Instance Requests (L-3819A6DF)"


@pytest.mark.parametrize(
    ("quotas", "seen"),
    [
        (
            {"L-3819A6DF": 0.0},
            [
                (
                    "g5.xlarge",
                    "warn",
                    f"{SPOT_G}: 0 vCPUs. One instance of g5.xlarge takes 4. Only its other way to "
                    "buy is left.",
                )
            ],
        ),
        (
            {"L-3819A6DF": 0.0, "L-DB2E81BA": 2.0},
            [
                (
                    "g5.xlarge",
                    "fail",
                    f"{SPOT_G}: 0 vCPUs. One instance of g5.xlarge takes 4.",
                ),
                (
                    "g5.xlarge",
                    "fail",
                    "Running On-Demand G and VT instances (L-DB2E81BA): 2 vCPUs. One instance of "
                    "g5.xlarge takes 4.",
                ),
            ],
        ),
        (
            {"L-3819A6DF": 0.0, "L-DB2E81BA": Refused("NoSuchResourceException")},
            [
                (
                    "g5.xlarge",
                    "not checked",
                    "Running On-Demand G and VT instances (L-DB2E81BA): NoSuchResourceException: "
                    "said AWS",
                ),
                (
                    "g5.xlarge",
                    "warn",
                    f"{SPOT_G}: 0 vCPUs. One instance of g5.xlarge takes 4. Only its other way to "
                    "buy is left.",
                ),
            ],
        ),
    ],
)
def test_a_quota_fails_only_where_no_way_to_buy_is_left(quotas, seen):
    account = healthy()
    account["quotas"] |= quotas
    found = [(target, status, text) for _, target, status, text, _ in not_ok(check(account))]
    assert found == seen


def test_targets_that_share_too_small_a_quota_wait_for_each_other():
    both = {name: CONFIG.targets[name] for name in NAMES}
    both["c5.4xlarge"] = CONFIG.targets["c5.2xlarge"].model_copy(
        update={"instance_type": "c5.4xlarge"}
    )
    clients = StubbedClients(REGION)
    vcpus = {"g5.xlarge": 4, "c5.2xlarge": 8, "c5.4xlarge": 16}
    types = [
        {"InstanceType": name, "VCpuInfo": {"DefaultVCpus": count}} for name, count in vcpus.items()
    ]
    clients.answer("ec2", "describe_instance_types", {"InstanceTypes": types})
    for _ in range(4):
        clients.answer("service-quotas", "get_service_quota", {"Quota": {"Value": 16.0}})
    found = [
        one for one in check_quotas(BatchEnvironment(CONFIG, both, clients)) if one.status != "ok"
    ]
    assert [(one.target, one.status) for one in found] == [("c5.2xlarge, c5.4xlarge", "warn")] * 2
    assert "16 vCPUs. One instance of each takes 24: their jobs wait" in found[0].seen
    assert found[0].remedy == "Ask for at least 24 in the Service Quotas console."


@pytest.mark.parametrize("key", ["bucket", "topic", "log group", "role", "profile"])
def test_what_may_not_be_asked_is_not_checked(key):
    result = check(healthy() | {key: Refused("AccessDenied")})
    seen = (
        "AccessDenied: said AWS (attach the policies of `terraform output airflow_policy_arns` to "
        "Airflow's role)"
    )
    assert {row[2:] for row in not_ok(result)} == {("not checked", seen, "")}
    assert result.failures() == ""


def test_a_question_without_an_answer_takes_those_that_need_it_with_it():
    account = healthy() | {"environments": Refused("InternalError")}
    result = check(account, well=False)
    unread = {(row[0], row[2]) for row in not_ok(result)}
    assert unread == {("compute environment", "not checked"), ("role", "not checked")}
    assert result.of("fail") == []


def test_the_table_shows_the_worst_first():
    account = healthy()
    account["environments"]["g5.xlarge-spot"]["state"] = "DISABLED"
    account["quotas"]["L-3819A6DF"] = Refused("NoSuchResourceException")
    console = Console(width=250, record=True, file=io.StringIO())
    console.print(check_table(check(account)))
    text = console.export_text()
    assert "1 fail, 1 not checked, " in text
    assert text.index("DISABLED") < text.index("NoSuchResourceException") < text.index("results")


@pytest.mark.parametrize(
    ("uri", "image"),
    [
        (IMAGE, Image("111122223333", REGION, "lab-job", "0.1.0", None)),
        (
            f"111122223333.dkr.ecr.cn-north-1.amazonaws.com.cn/a/b@sha256:{'0' * 64}",
            Image("111122223333", "cn-north-1", "a/b", None, f"sha256:{'0' * 64}"),
        ),
        ("111122223333.dkr.ecr.eu-west-1.amazonaws.com/lab-job", None),
        ("python:3.11", None),
        ("none", None),
    ],
)
def test_an_images_address_is_taken_apart(uri, image):
    assert Image.parse(uri) == image


@pytest.mark.parametrize(
    ("instance_type", "on_demand", "spot"),
    [
        ("c5.2xlarge", "L-1216C47A", "L-34B43A08"),
        ("g4dn.xlarge", "L-DB2E81BA", "L-3819A6DF"),
        ("gr6.4xlarge", "L-DB2E81BA", "L-3819A6DF"),
        ("p4d.24xlarge", "L-417A185B", "L-7212CCBC"),
        ("p5en.48xlarge", "L-417A185B", "L-C4BD4855"),
        ("x2idn.16xlarge", "L-7295265B", "L-E3A00192"),
    ],
)
def test_an_instance_type_has_a_quota_for_each_way_to_buy(instance_type, on_demand, spot):
    assert vcpu_quota(instance_type, "on_demand").code == on_demand
    assert vcpu_quota(instance_type, "spot").code == spot


@pytest.mark.parametrize("instance_type", ["inf2.xlarge", "trn1.2xlarge", "hpc7a.96xlarge"])
def test_a_family_that_is_not_known_has_no_quota_here(instance_type):
    assert vcpu_quota(instance_type, "spot") is None
