"""What DAGs have in common, from the laptop's targets to a mapped task and what it tells."""

import json
import logging
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG, task

from batchmark.core.own_jobs import OwnJobRun
from batchmark.orchestration import dag_parts
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
