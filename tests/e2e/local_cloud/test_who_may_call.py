"""What a web page and another user of this machine try, against the real server."""

import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

LINK = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
IMAGE = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}


@pytest.fixture
def http(cloud):
    with httpx.Client(base_url=cloud.endpoint_url, trust_env=False) as client:
        yield client


def test_another_user_calls_and_resets_nothing(cloud, http):
    another = boto3.Session("test", "test", region_name="us-east-1")
    config = Config(retries={"total_max_attempts": 1})
    batch = another.client("batch", endpoint_url=cloud.endpoint_url, config=config)
    with pytest.raises(ClientError, match=f"SignatureDoesNotMatch.*{cloud.credentials}"):
        batch.describe_job_queues()
    batch.close()
    assert http.post("/moto-api/reset").status_code == 403
    assert cloud.batch.describe_job_queues(jobQueues=[cloud.queue])["jobQueues"]


@pytest.mark.parametrize("headers", [{"Host": "rebound.example"}, LINK, {}])
def test_a_page_reads_and_changes_nothing(http, headers):
    answer = http.get("/cloudformation_us-east-1/?Action=ListStacks", headers=headers)
    assert answer.status_code == 403
    assert "The local cloud " in answer.text


def test_links_to_a_log_and_an_object_open(cloud, http):
    job_id = cloud.shell("echo said")
    cloud.finish(job_id)
    page = http.get(f"/local-cloud/jobs/{job_id}/log", headers=LINK)
    assert page.text.splitlines()[1] == "said"
    s3, bucket = cloud.client("s3"), cloud.name("linked")
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="runs/a b/report.html", Body=b"<p>")
    key = {"Bucket": bucket, "Key": "runs/a b/report.html"}
    address = s3.generate_presigned_url("get_object", Params=key)
    assert http.get(address, headers=LINK).text == "<p>"
    assert http.get(address, headers=IMAGE).status_code == 403
    assert http.get(address.partition("?")[0], headers=LINK).status_code == 403
