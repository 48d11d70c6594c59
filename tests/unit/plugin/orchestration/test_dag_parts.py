"""What DAGs have in common: targets, mapped tasks, what these tell, forms and links."""

import json
import logging
import os
import re
import subprocess
import sys
from runpy import run_path
from types import SimpleNamespace

import boto3
import pytest
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import ParamValidationError

from batchmark.aws.result_bucket import BROWSER_ENDPOINT, RunStore
from batchmark.core.names import PAGES
from batchmark.core.own_jobs import OwnJobRun
from batchmark.orchestration import dag_parts, forms, links
from batchmark.orchestration.links import (
    JobResultLink,
    ReportLink,
    job_log_url,
    page_url,
    result_url,
)
from batchmark.orchestration.operators.batch_operator import BenchmarkJobOperator
from batchmark.orchestration.telling import console, tell
from batchmark.runs.own_jobs import wrapper
from batchmark.runs.plans.own_job_plan import plan_own_jobs
from batchmark.runs.plans.planning import all_operator_kwargs
from laptop.airflow import Airflow
from tests.builders.existing_jobs import own_jobs
from tests.builders.installations import configured
from tests.paths import ROOT

BRACES = ("awk", "{{ 6 * 7 }}", "{# gone #}x", "{% raw %}")


def test_the_laptop_names_the_targets_of_its_profile(tmp_path):
    airflow = Airflow(tmp_path, 8080, ROOT / "dags", schedules=True)
    aws = {"AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": "http://127.0.0.1:5000"}
    named = airflow.environment(ROOT, aws)["BATCHMARK_TARGETS"].split(",")
    profile = (ROOT / "terraform" / "local.tfvars").read_text()
    lists = re.findall(r"^[cg]pu_instance_types = (\[.*\])$", profile, re.MULTILINE)
    assert named == sorted(name for text in lists for name in json.loads(text))


def test_clients_tell_no_task_what_they_found():
    """In a process of its own: the root logger here is pytest's."""
    program = (
        "import logging; logging.basicConfig(level=logging.INFO)\n"
        "import boto3, batchmark.orchestration\n"
        "boto3.client('s3')\n"
    )
    env = os.environ | {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    env |= {"AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    found = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    assert "Found" not in found.stderr


def mapped(planned):
    """The task of the last of these jobs, as a worker makes it of what plan_jobs returned."""

    @task
    def plan_jobs():
        raise AssertionError("its XCom is there")

    with DAG("own", schedule=None):
        operator = dag_parts.run_benchmark(plan_jobs())
    planned = json.loads(json.dumps(planned))
    ti = SimpleNamespace(map_index=len(planned) - 1, xcom_pull=lambda **_: planned, dag_id="own")
    context = {"ti": ti, "dag": operator.dag, "dag_run": SimpleNamespace(conf={}), "run_id": "r"}
    operator.render_template_fields(context | {"task": operator})
    ti.max_tries = ti.task.retries
    return ti.task, context | {"task": ti.task}


def test_an_own_jobs_command_is_no_template_and_its_script_is_in_no_plan():
    named = {"script": "{{ 6 * 7 }}"}
    jobs = own_jobs(command=[*BRACES, "Ref::script"], axis=None, parameters=named)
    plan = plan_own_jobs(configured(), jobs, OwnJobRun(job="thumbnails", repeats=1), run_name="r")
    arguments = all_operator_kwargs(configured(), "r", plan)
    assert "sh" not in json.dumps(arguments).split('"')
    operator, context = mapped(arguments)
    assert isinstance(operator, BenchmarkJobOperator)
    request = operator._request(context)
    command = wrapper.command([*BRACES, "{{ 6 * 7 }}"])
    assert request["containerOverrides"] == {"command": command}
    assert request["parameters"] == named


@pytest.fixture(autouse=True)
def every_line_counts(caplog):
    caplog.set_level(logging.INFO, "batchmark.task")


def test_each_whole_line_is_a_record_of_its_own_and_no_format(caplog):
    tell("one\ntwo", 3, "")
    assert caplog.messages == ["one", "two", "3", ""]
    caplog.clear()
    lines = console(20)
    lines.print("a line", end="")
    assert caplog.messages == []
    lines.print(" and its end")
    assert caplog.messages == ["a line and its end"]


def test_targets_are_chosen_from_those_that_the_environment_names(monkeypatch):
    monkeypatch.setenv("BATCHMARK_TARGETS", "c5.2xlarge,g5.xlarge")
    param = forms.targets_param()
    assert param.schema["examples"] == ["c5.2xlarge", "g5.xlarge"]
    assert param.description == "Targets; by default, all targets created by Terraform."
    assert param.resolve() == []
    params = forms.suite_params(repeats=1, fewest_repeats=1, about_repeats="", max_cost_usd=1)
    named = "except those whose jobs share an instance."
    assert params["targets"].description.endswith(named)
    everything = "by default, all targets created by Terraform."
    assert forms.sharing_params()["targets"].description.endswith(everything)


@pytest.mark.parametrize("named", [None, ""])
def test_else_they_are_typed(monkeypatch, named):
    monkeypatch.delenv("BATCHMARK_TARGETS", raising=False)
    if named is not None:
        monkeypatch.setenv("BATCHMARK_TARGETS", named)
    param = forms.targets_param()
    assert "examples" not in param.schema
    assert "one per line" in param.description
    assert param.resolve(["g5.xlarge"]) == ["g5.xlarge"]


def test_own_jobs_and_their_sizes_are_chosen_from_those_that_the_environment_names(monkeypatch):
    monkeypatch.setenv("BATCHMARK_OWN_JOBS", "thumbnails,transcode")
    job = forms.own_job_params()["job"]
    assert job.schema["examples"] == ["thumbnails", "transcode"]
    assert job.resolve() == "thumbnails"
    assert job.resolve("another") == "another", "Airflow may know of it later than Terraform"
    monkeypatch.delenv("BATCHMARK_OWN_JOBS")
    job = forms.own_job_params()["job"]
    assert "examples" not in job.schema
    assert job.resolve() is None

    def job(*sizes):
        return {"command": ["a"], "axis": {"parameter": "mb", "sizes": sizes} if sizes else None}

    told = {"convert": job(1048576, 256, 0.5), "train": job(), "scan": job(256)}
    monkeypatch.setenv("BATCHMARK_OWN_JOBS", json.dumps(told))
    params = forms.own_job_params()
    assert params["job"].schema["examples"] == ["convert", "train", "scan"]
    sizes = params["sizes"]
    assert sizes.schema["examples"] == ["0.5", "256", "1048576"]
    assert sizes.schema["values_display"]["256"] == "256 (convert, scan)"
    assert "per line" not in sizes.description
    assert sizes.resolve(["256"]) == ["256"], "Airflow's form gives what was chosen as text"


@pytest.mark.parametrize("told", ["", "{", '{"a": 1}', '{"a": {"axis": {"sizes": ["x"]}}}'])
def test_where_no_jobs_are_known_both_are_typed_line_by_line(monkeypatch, told):
    monkeypatch.setenv("BATCHMARK_OWN_JOBS", told)
    params = forms.own_job_params()
    sizes = params["sizes"]
    assert "examples" not in sizes.schema | params["job"].schema
    # With a type other than string, Airflow's form is a JSON editor.
    assert "type" not in sizes.schema["items"]
    assert "one number per line" in sizes.description
    assert sizes.resolve(["256", ""]) == ["256", ""]


@pytest.mark.parametrize(
    ("params", "name", "value", "message"),
    [
        (forms.own_job_params, "job", "Thumb nails", "does not match"),
        (forms.own_job_params, "sizes", "64", "'64' is not of type 'array'"),
        (forms.comparison_params, "name", "My job", "does not match"),
        (forms.comparison_params, "sides", ["a"], "'a' is not of type 'object'"),
        (forms.comparison_params, "parameter", "a b", "does not match"),
    ],
)
def test_the_forms_refuse_what_the_dags_can_not_do(params, name, value, message):
    with pytest.raises(ParamValidationError, match=message):
        params()[name].resolve(value)


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


def test_a_page_is_linked_in_the_bucket_or_where_airflow_has_its_run_and_result(store, address):
    assert store.object_url("runs/a b.json").startswith(store.bucket_url)
    context = {"ti": SimpleNamespace(dag_id="leak_guard"), "run_id": "run 1"}
    address(None)
    assert page_url(context, store, "guard/1.html").startswith(f"{OUTSIDE}/results/guard/1.html")
    address("https://airflow.example")
    assert page_url(context, store, "guard/1.html").endswith("/dag-runs/leak_guard/run%201")
    beside = page_url(context, store, "guard/1.html", is_runs=False)
    assert beside.endswith("/batchmark/files/guard/1.html")
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


@pytest.fixture
def address(monkeypatch):
    """Sets Airflow's own address; None where it is not configured."""

    def set_to(url):
        monkeypatch.setattr(links.conf, "get", lambda *_, fallback: url or fallback)

    return set_to


def test_the_plugin_shows_the_pages_in_airflow():
    plugin = run_path(str(ROOT / "plugins" / "batchmark_plugin.py"))["BatchmarkPlugin"]
    assert [app["url_prefix"] for app in plugin.fastapi_apps] == [PAGES]
    assert {view["destination"] for view in plugin.external_views} == {"nav", "dag", "dag_run"}
    for view in plugin.external_views:
        assert view["href"].startswith(PAGES.removeprefix("/") + "/")
