"""Links for browsers, where only Airflow can resolve the local cloud's name."""

from types import SimpleNamespace

import boto3
import pytest

from batchmark.aws.result_bucket import BROWSER_ENDPOINT, RunStore
from batchmark.orchestration.links import job_log_url

INSIDE = "http://local-cloud:5000"
OUTSIDE = "http://127.0.0.1:5123"


@pytest.fixture
def store(monkeypatch):
    monkeypatch.setenv(BROWSER_ENDPOINT, OUTSIDE)
    client = boto3.client(
        "s3",
        region_name="us-east-1",
        endpoint_url=INSIDE,
        aws_access_key_id="a",
        aws_secret_access_key="b",
    )
    return RunStore(client, "results", "run 1")


def test_a_jobs_log_is_linked_where_the_browser_finds_it(monkeypatch):
    batch = SimpleNamespace(meta=SimpleNamespace(endpoint_url=INSIDE, region_name="us-east-1"))
    assert job_log_url(batch, "job-1") == f"{INSIDE}/local-cloud/jobs/job-1/log"
    monkeypatch.setenv(BROWSER_ENDPOINT, OUTSIDE)
    assert job_log_url(batch, "job-1") == f"{OUTSIDE}/local-cloud/jobs/job-1/log"


def test_objects_are_linked_where_the_browser_finds_them(store):
    url = store.object_url("runs/run-1/report.html")
    assert url.startswith(f"{OUTSIDE}/results/runs/run-1/report.html?")
    assert "local-cloud" not in url


def test_copying_a_report_recognises_those_links(store):
    assert store.object_url("runs/a b.json").startswith(store.bucket_url)


def test_links_into_aws_stay_as_they_are(monkeypatch):
    monkeypatch.setenv(BROWSER_ENDPOINT, OUTSIDE)
    meta = SimpleNamespace(
        endpoint_url="https://batch.us-east-1.amazonaws.com", region_name="us-east-1"
    )
    assert job_log_url(SimpleNamespace(meta=meta), "job-1").startswith("https://us-east-1.console")
