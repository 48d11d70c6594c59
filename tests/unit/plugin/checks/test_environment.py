"""The environment check of a healthy installation, of its defects, and of its image and scan."""

import json
from functools import partial

import pytest

from batchmark.aws.batch_targets import BatchEnvironment, Image, published_environments
from batchmark.checks import image as image_checks
from batchmark.checks.environment import (
    APPLY,
    NAME_ANOTHER,
    check_compute_environments,
    check_published,
)
from batchmark.checks.machine_image import check_amis
from tests.builders import existing_jobs
from tests.builders.installations import configured, target
from tests.builders.leaks import IMAGE, REGION, queue_arn
from tests.stand_ins.guarded_account import (
    AMI,
    AMI_FOLDERS,
    BOTH,
    NAMES,
    Refused,
    ami_document,
    ami_of,
    check,
    healthy,
    not_ok,
)
from tests.stand_ins.stubbed_clients import StubbedClients


def test_a_healthy_account_has_only_ok_checks():
    result = check(healthy())
    assert not_ok(result) == []
    assert result.summary == f"{len(result.checks)} ok"
    assert result.failures() == ""
    assert next(each.seen for each in result.checks if each.name == "vCPU quota") == (
        "All G and VT Spot Instance Requests (L-3819A6DF): 16 vCPUs."
    )
    assert {each.name for each in result.checks} == {
        *("bucket", "topic", "log group", "compute environment", "AMI", "job queue"),
        *("job definition", "image", "image scan", "job role", "execution role"),
        *("instance profile", "vCPU quota"),
    }
    of_one = check(healthy(), targets=("c5.2xlarge",))
    assert not_ok(of_one) == []
    assert {each.target for each in of_one.checks} == {"all", "c5.2xlarge"}


def test_what_is_not_published_is_not_asked_for():
    clients = StubbedClients(REGION)
    clients.answer("s3", "head_bucket", {}, {"Bucket": "results"})
    config = configured(topic_arn=None, log_group=None)
    (only,) = check_published(BatchEnvironment(config, {}, clients))
    assert (only.name, only.status) == ("bucket", "ok")


def test_an_own_job_asks_for_what_it_likes_on_targets_that_are_checked_as_ever():
    account = healthy()
    definition(retryStrategy={"attempts": 1}, timeout={})(account)
    assert not_ok(check(account, own_jobs=True)) == []
    newer(account)
    queue(computeEnvironmentOrder=TRIES_SPOT)(account)
    account["recommended"] = dict.fromkeys(AMI_FOLDERS, NEWER_AMI)
    account["role"] = Refused("NoSuchEntity")
    result = check(account, own_jobs=True)
    assert result.summary.startswith("3 fail, 3 warn, ")
    seen = {(name, status) for name, _, status, *_ in not_ok(result)}
    warned, failed = ("AMI", "job definition"), ("job queue", "job role", "execution role")
    assert seen == {(name, "warn") for name in warned} | {(name, "fail") for name in failed}


NEWER_AMI = ami_document("ami-00000000000000002", "20261118")


QUEUE = queue_arn("g5.xlarge")
TRIES_SPOT = [{"order": 1, "computeEnvironment": "g5.xlarge-spot"}]


def changed(kind, name, **changes):
    return lambda account: account[kind][name].update(changes)


environment = partial(changed, "environments", "g5.xlarge-spot")
queue = partial(changed, "queues", QUEUE)
definition = partial(changed, "definitions", "g5.xlarge")


def newer(account):
    account["newest"]["g5.xlarge"] = 4


def gone(kind, name):
    return lambda account: account[kind].pop(name)


def assert_reported(change, name, status, seen, remedy, of_others):
    """With its remedy, and with that for what others made; None if it is no defect of theirs."""
    for told, foreign in ((remedy, False), (of_others, True)):
        account = healthy()
        change(account)
        result = check(account, well=False, foreign=foreign)
        if told is None:
            assert not_ok(result) == []
            continue
        assert (name, "g5.xlarge", status, seen, told) in not_ok(result)
        line = f"{name} of g5.xlarge: {seen} Remedy: {told}"
        assert (line in result.failures()) is (status == "fail")


ENABLE = "Enable it in the Batch console, or `terraform apply`."
ENABLE_THEIRS = "Enable it in the Batch console."
OFF, HEALTHY = "is DISABLED and VALID:", "ComputeEnvironment Healthy"


@pytest.mark.parametrize(
    ("change", "status", "seen", "remedy", "of_others"),
    [
        (gone("environments", "g5.xlarge-spot"), "fail", "does not exist.", APPLY, NAME_ANOTHER),
        (environment(state="DISABLED"), "fail", f"{OFF} {HEALTHY}", ENABLE, ENABLE_THEIRS),
        (
            *(environment(status="INVALID", statusReason="CLIENT_ERROR - no such subnet"), "fail"),
            "is ENABLED and INVALID: CLIENT_ERROR - no such subnet",
            "Fix the problem in its status reason, then `terraform apply`.",
            "Fix the problem in its status reason.",
        ),
        (
            *(environment(status="UPDATING", statusReason="changing"), "warn"),
            "is ENABLED and UPDATING: changing",
            *["Wait until the change is complete."] * 2,
        ),
        (
            *(environment(computeResources={"maxvCpus": 2, "subnets": [], "type": "SPOT"}), "fail"),
            "is limited to 2 vCPUs, but a job needs 4.",
            "Raise max_vcpus in target_overrides.",
            "Raise the environment's maxvCpus.",
        ),
    ],
)
def test_each_defect_of_a_compute_environment_is_reported(change, status, seen, remedy, of_others):
    seen = f"g5.xlarge-spot {seen}"
    assert_reported(change, "compute environment", status, seen, remedy, of_others)


def of_targets(targets, *, foreign=False, **resources):
    """The AWS side of some targets, whose compute environments have these resources."""
    config = configured(targets=targets)
    made = BatchEnvironment(config, config.targets, StubbedClients(REGION), foreign=foreign)
    made.compute_environments = {
        name: existing_jobs.environment(name, resources=resources)
        for each in config.targets.values()
        for name in published_environments(each).values()
    }
    return made


def test_an_environment_has_room_for_all_jobs_that_share_its_instance():
    shared = {"shared": target("cuda", gpus=0, sharing="mps", max_replicas=5, vcpus=4)}
    enough, _ = check_compute_environments(of_targets(shared, maxvCpus=20))
    small, _ = check_compute_environments(of_targets(shared, maxvCpus=19))
    assert (enough.status, small.status) == ("ok", "fail")
    assert "is limited to 19 vCPUs, but each of 5 jobs needs 4." in small.seen


@pytest.mark.parametrize(
    ("used", "day"), [(ami_document(), " from 2026-09-22"), (None, "")], ids=["dated", "unknown"]
)
def test_an_ami_that_ecs_recommends_no_longer_is_told(used, day):
    account = healthy() | {"used": used}
    account["recommended"]["ECS_AL2023_NVIDIA"] = NEWER_AMI
    result = check(account)
    (line,) = not_ok(result)
    seen = f"Hosts boot {AMI}{day}; ECS recommends ami-00000000000000002 from 2026-11-18."
    renew = (
        "Set ami_release to any other value and run `terraform apply` between two runs; "
        "the results will then show the new AMI as a change."
    )
    assert line == ("AMI", "g5.xlarge", "warn", seen, renew)
    (other,) = [each.seen for each in result.of("ok") if each.name == "AMI"]
    assert other == f"Hosts boot {AMI}{day}, the one ECS recommends."


@pytest.mark.parametrize(
    ("sharing", "day", "statuses"),
    [
        ("mps", "20260820", ["warn", "fail"]),
        ("mps", "20260826", ["warn"]),
        ("mps", None, ["warn"]),
        ("time_slicing", "20260820", ["warn"]),
    ],
)
def test_jobs_share_a_gpu_by_mps_on_amis_that_have_its_folder(sharing, day, statuses):
    shared = target("cuda", gpus=0, sharing=sharing, max_replicas=5)
    targets = {"shared": shared, "g5.xlarge": target("cuda")}
    checked = of_targets(targets, ec2Configuration=[ami_of("g5.xlarge")])
    folder = AMI_FOLDERS["ECS_AL2023_NVIDIA"]
    documents = {f"{folder}recommended": NEWER_AMI}
    if day:
        documents[f"{folder}{AMI}"] = ami_document(day=day)
    found = [{"Name": name, "Value": json.dumps(each)} for name, each in documents.items()]
    checked.client.answer("ssm", "get_parameters", {"Parameters": found})
    checks = list(check_amis(checked))
    assert [each.status for each in checks] == statuses
    if "fail" in statuses:
        assert checks[-1].target == "shared"
        lacks = "AMIs up to 2026-08-20 lack the MPS folder /run/mps-ecs."
        assert checks[-1].seen == f"Hosts boot {AMI} from 2026-08-20. {lacks}"


def test_where_nothing_is_recommended_an_ami_is_not_judged():
    account = healthy()
    account["recommended"]["ECS_AL2023"] = None
    (line,) = not_ok(check(account))
    seen = f"There is no SSM parameter {AMI_FOLDERS['ECS_AL2023']}recommended."
    assert line == ("AMI", "c5.2xlarge", "not checked", seen, "")


@pytest.mark.parametrize(
    ("given", "image", "foreign"),
    [
        ({"given_ami": True}, ami_of("g5.xlarge"), False),
        ({}, {"imageType": "ECS_AL2023_NVIDIA"}, False),
        ({}, ami_of("g5.xlarge") | {"imageType": "ECS_AL2"}, False),
        ({}, ami_of("g5.xlarge"), True),
    ],
)
def test_an_ami_that_terraform_did_not_choose_is_not_compared(given, image, foreign):
    targets = {"g5.xlarge": target("cuda", **given)}
    assert list(check_amis(of_targets(targets, foreign=foreign, ec2Configuration=[image]))) == []


@pytest.mark.parametrize(
    ("change", "seen", "remedy", "of_others"),
    [
        (gone("queues", QUEUE), f"{QUEUE} does not exist.", APPLY, NAME_ANOTHER),
        (queue(state="DISABLED"), f"lab-g5-xlarge {OFF} no reason given", ENABLE, ENABLE_THEIRS),
        (
            queue(computeEnvironmentOrder=TRIES_SPOT),
            "lab-g5-xlarge tries its compute environments in the order g5.xlarge-spot, not in the "
            "published order g5.xlarge-spot, g5.xlarge-on-demand.",
            *(APPLY, None),
        ),
    ],
)
def test_each_defect_of_a_queue_is_reported(change, seen, remedy, of_others):
    assert_reported(change, "job queue", "fail", seen, remedy, of_others)


@pytest.mark.parametrize(
    ("change", "status", "seen"),
    [
        (gone("definitions", "g5.xlarge"), "fail", "missing."),
        (definition(status="INACTIVE"), "fail", "INACTIVE."),
        (newer, "warn", "ACTIVE; revision 4 is newer."),
        (
            *(definition(timeout={"attemptDurationSeconds": 60}, retryStrategy={}), "warn"),
            "ACTIVE; it has 1 attempts, but the published value is 3; it has 60 seconds per "
            "attempt, but the published value is 3600.",
        ),
    ],
)
def test_each_defect_of_a_job_definition_is_reported(change, status, seen):
    seen, of_others = f"lab-g5-xlarge:3 is {seen}", NAME_ANOTHER if status == "fail" else None
    assert_reported(change, "job definition", status, seen, APPLY, of_others)


@pytest.mark.parametrize(
    ("key", "code", "name", "published"),
    [
        ("bucket", "404", "bucket", "results"),
        ("topic", "NotFound", "topic", f"arn:aws:sns:{REGION}:111122223333:lab-alerts"),
        ("log group", "ResourceNotFoundException", "log group", "/aws/batch/lab"),
        ("role", "NoSuchEntity", "execution role", "lab-execution-1"),
        ("profile", "NoSuchEntity", "instance profile", "lab-instance-1"),
    ],
)
def test_a_published_name_that_does_not_exist_fails(key, code, name, published):
    result = check(healthy() | {key: Refused(code)})
    target = BOTH if key in ("role", "profile") else "all"
    assert (name, target, "fail", f"{published} does not exist.", APPLY) in not_ok(result)


@pytest.mark.parametrize("key", ["bucket", "topic", "log group", "role", "profile", "recommended"])
def test_a_denied_call_leaves_its_check_undone(key):
    result = check(healthy() | {key: Refused("AccessDenied")})
    seen = (
        "AccessDenied: said AWS (attach the policies of `terraform output airflow_policy_arns` to "
        "Airflow's role)"
    )
    assert {row[2:] for row in not_ok(result)} == {("not checked", seen, "")}
    assert result.failures() == ""


def test_checks_that_need_a_failed_call_are_not_made():
    account = healthy() | {"environments": Refused("InternalError")}
    result = check(account, well=False)
    unread = {(row[0], row[2]) for row in not_ok(result)}
    assert unread == {(name, "not checked") for name in ("compute environment", "AMI", "role")}
    assert result.of("fail") == []


SERIOUS = {
    "imageScanStatus": {"status": "ACTIVE"},
    "imageScanFindings": {"findingSeverityCounts": {"CRITICAL": 2, "HIGH": 5}},
}
SCANNING = {"imageScanStatus": {"status": "IN_PROGRESS"}}
NEVER = Refused("ScanNotFoundException")
UNSCANNED, SCAN_ON_PUSH = "This image was not scanned", "Enable scan on push in ECR."


@pytest.mark.parametrize("code", ["ImageNotFoundException", "RepositoryNotFoundException"])
def test_a_missing_image_fails_with_its_remedy(code):
    result = check(healthy() | {"image": Refused(code)}, well=False)
    remedy = "Run `make image`, then `terraform apply`."
    assert not_ok(result) == [("image", BOTH, "fail", f"{IMAGE} is not in ECR.", remedy)]


@pytest.mark.parametrize("whose", ["foreign", "own_jobs"])
def test_an_image_of_others_is_not_made_here(monkeypatch, whose):
    missing = healthy() | {"image": Refused("ImageNotFoundException")}
    result = check(missing, well=False, **{whose: True})
    seen = f"{IMAGE} is not in ECR."
    assert not_ok(result) == [("image", BOTH, "fail", seen, "Push it, or choose another image.")]
    (found,) = not_ok(check(healthy() | {"scan": SERIOUS}, **{whose: True}))
    assert found[-1] == "Review them in the ECR console."
    monkeypatch.setattr(image_checks, "is_aws", lambda _: False)
    seen = f"{IMAGE} is not in ECR on the local cloud."
    found = check(missing, well=False, **{whose: True})
    assert not_ok(found) == [("image", BOTH, "not checked", seen, "")]


def test_an_image_from_elsewhere_is_not_checked_nor_one_of_a_local_cloud_scanned(monkeypatch):
    account = healthy()
    for name in NAMES:
        account["definitions"][name]["containerProperties"]["image"] = "python:3.11"
    seen = f"'python:3.11' is not an ECR image in {REGION}."
    assert not_ok(check(account, well=False)) == [("image", BOTH, "not checked", seen, "")]
    monkeypatch.setattr(image_checks, "is_aws", lambda _: False)
    found = check(healthy() | {"scan": NEVER}, well=False)
    assert [one.name for one in found.checks if one.name.startswith("image")] == ["image"]
    assert not_ok(found) == []


@pytest.mark.parametrize(
    ("scan", "scans_on_push", "seen", "remedy"),
    [
        (
            *(SERIOUS, None, "Scan findings: 2 critical, 5 high."),
            "Review them in the ECR console; `make base-images` updates the base for `make image`.",
        ),
        (SCANNING, None, "The scan is IN_PROGRESS: no reason given", ""),
        (NEVER, True, f"{UNSCANNED}; its repository scans on push.", "Scan it in the ECR console."),
        (NEVER, False, f"{UNSCANNED}: its repository does not scan on push.", SCAN_ON_PUSH),
    ],
)
def test_findings_of_a_scan_are_warnings(scan, scans_on_push, seen, remedy):
    account = healthy() | {"scan": scan}
    if scans_on_push is not None:
        configuration = {"imageScanningConfiguration": {"scanOnPush": scans_on_push}}
        account["repository"] = {"repositories": [configuration]}
    assert not_ok(check(account)) == [("image scan", BOTH, "warn", seen, remedy)]


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
def test_an_image_uri_is_parsed(uri, image):
    assert Image.parse(uri) == image
