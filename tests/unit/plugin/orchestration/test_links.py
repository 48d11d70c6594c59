"""Links for browsers, where only Airflow can resolve the local cloud's name."""

from runpy import run_path
from types import SimpleNamespace

import boto3
import pytest

from batchmark.aws.result_bucket import BROWSER_ENDPOINT, RunStore
from batchmark.core.names import PAGES
from batchmark.orchestration import links
from batchmark.orchestration.links import (
    JobResultLink,
    ReportLink,
    job_log_url,
    page_url,
    result_url,
)
from tests.paths import ROOT

INSIDE = "http://local-cloud:5000"
OUTSIDE = "http://127.0.0.1:5123"


@pytest.fixture
def store(monkeypatch):
    monkeypatch.setenv(BROWSER_ENDPOINT, OUTSIDE)
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
    client = boto3.client("s3", region_name="us-east-1", endpoint_url=INSIDE, **keys)
    return RunStore(client, "results", "run 1")


IN_AWS = "https://us-east-1.console.aws.amazon.com/batch/home?region=us-east-1#jobs/detail/job-1"


@pytest.mark.parametrize(
    ("endpoint", "outside", "url"),
    [
        (INSIDE, None, f"{INSIDE}/local-cloud/jobs/job-1/log"),
        (INSIDE, OUTSIDE, f"{OUTSIDE}/local-cloud/jobs/job-1/log"),
        ("https://batch.us-east-1.amazonaws.com", OUTSIDE, IN_AWS),
    ],
)
def test_a_jobs_log_is_linked_where_the_browser_finds_it(monkeypatch, endpoint, outside, url):
    if outside:
        monkeypatch.setenv(BROWSER_ENDPOINT, outside)
    meta = SimpleNamespace(endpoint_url=endpoint, region_name="us-east-1")
    assert job_log_url(SimpleNamespace(meta=meta), "job-1") == url


def test_without_airflows_address_a_page_is_linked_in_the_bucket(store, address):
    assert store.object_url("runs/a b.json").startswith(store.bucket_url)
    context = {"ti": SimpleNamespace(dag_id="leak_guard"), "run_id": "run 1"}
    address(None)
    assert page_url(context, store, "guard/1.html").startswith(f"{OUTSIDE}/results/guard/1.html")
    address("https://airflow.example")
    assert page_url(context, store, "guard/1.html").endswith("/dag-runs/leak_guard/run%201")
    beside = page_url(context, store, "guard/1.html", is_runs=False)
    assert beside.endswith("/batchmark/files/guard/1.html")


@pytest.fixture
def address(monkeypatch):
    """Sets Airflow's own address; None where it is not configured."""

    def set_to(url):
        monkeypatch.setattr(links.conf, "get", lambda *_, fallback: url or fallback)

    return set_to


def test_a_publishing_task_leads_to_its_runs_page_and_a_job_to_its_result(address):
    address("https://airflow.example/base/")
    key = SimpleNamespace(dag_id="gpu_cpu_benchmark", run_id="manual__2026-11-20T12:00:00+00:00")
    assert ReportLink().get_link(None, ti_key=key) == (
        f"https://airflow.example/base{PAGES}/dag-runs/gpu_cpu_benchmark/"
        "manual__2026-11-20T12%3A00%3A00%2B00%3A00"
    )
    url = result_url("s3://results/raw/run/g5.xlarge/blog/1/", "job-1")
    assert url == f"https://airflow.example/base{PAGES}/results/raw/run/g5.xlarge/blog/1/job-1"
    operator = SimpleNamespace(job_result_url=url)
    assert JobResultLink().get_link(operator, ti_key=None) == url
    assert JobResultLink().get_link(SimpleNamespace(), ti_key=None) == ""


def test_the_plugin_shows_the_pages_in_airflow():
    plugin = run_path(str(ROOT / "plugins" / "batchmark_plugin.py"))["BatchmarkPlugin"]
    assert [app["url_prefix"] for app in plugin.fastapi_apps] == [PAGES]
    assert {view["destination"] for view in plugin.external_views} == {"nav", "dag", "dag_run"}
    for view in plugin.external_views:
        assert view["href"].startswith(PAGES.removeprefix("/") + "/")
