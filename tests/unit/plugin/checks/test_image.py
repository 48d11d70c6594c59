"""The job image in ECR, and its scan."""

import pytest

from batchmark.aws.batch_targets import Image
from batchmark.checks import image as image_checks
from tests.builders.leaks import IMAGE, REGION
from tests.stand_ins.guarded_account import BOTH, NAMES, Refused, check, healthy, not_ok

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
