"""What ECR says of the image, and earlier attempts of its pull."""

import pytest

from batchmark.diagnosis import diagnose
from tests.unit.diagnosis.answers import IMAGE, NOW, QUEUE, container, job, only


@pytest.mark.parametrize("code", ["ImageNotFoundException", "RepositoryNotFoundException"])
def test_an_image_that_ecr_does_not_have(find, aws, code):
    starting = find({"DescribeImages": code}, job=job(status="STARTING"))
    assert only(starting, "image_missing").certain
    assert f"ECR has no {IMAGE}." in starting.message()
    assert aws.asked("DescribeImages") == [
        {
            "registryId": "123456789012",
            "repositoryName": "batchmark",
            "imageIds": [{"imageTag": "0.1.0"}],
        }
    ]
    waits = only(find(job=job()), "image_missing")
    assert waits.certain is False
    assert "it will fail on one" in waits.evidence


def test_an_image_by_digest(find, aws):
    digest = f"sha256:{'0' * 64}"
    image = IMAGE.replace(":0.1.0", f"@{digest}")
    assert find(job=job(container=container(image=image))).findings == ()
    assert aws.asked("DescribeImages")[0]["imageIds"] == [{"imageDigest": digest}]


def test_an_image_of_another_registry_is_not_asked_for(find, aws):
    assert find(job=job(container=container(image="python:3.11"))).findings == ()
    assert aws.asked("DescribeImages") == []


def test_an_image_that_could_not_be_pulled(find):
    reason = "CannotPullContainerError: pull image manifest has been retried 7 time(s)"
    attempts = [{"container": {"reason": reason}}, {"container": {}}]
    finding = only(find(job=job(attempts=attempts)), "image_not_pulled")
    assert finding.certain
    assert f"1 attempt(s) could not pull the image, the last with: {reason}" in finding.evidence


def test_an_image_of_another_region_is_told(aws):
    image = IMAGE.replace("us-east-1", "eu-west-1")
    diagnosis = diagnose(
        aws.client, queue=QUEUE, job=job(container=container(image=image)), now=NOW
    )
    assert diagnosis.unread == (f"the image in ECR: {image} is in eu-west-1, not in us-east-1",)
