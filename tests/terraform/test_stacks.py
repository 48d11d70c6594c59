"""The optional stacks: roots of their own, each tested like the core stack."""

import json
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import packages_distributions

import pytest

from batchmark.core.clusters.multi_node import parse_multi_node
from batchmark.core.config import parse_config
from tests.imports import imported
from tests.terraform.conftest import LOCK_FILE, ROOT, SOURCE
from tests.terraform.runs import asserted, evaluated, pass_all_runs, terraform
from tests.terraform.test_core_stack import test_a_module_is_complete as check_completeness

STACKS = sorted(path.name for path in (SOURCE / "stacks").iterdir() if path.is_dir())

pytestmark = pytest.mark.timeout(2400)


@pytest.fixture(scope="module")
def runs(tmp_path_factory, attached):
    """`terraform test` in a copy of every stack; it validates what it tests."""
    root = tmp_path_factory.mktemp("stacks")
    shutil.copytree(SOURCE, root / "terraform", ignore=shutil.ignore_patterns(".terraform"))
    shutil.copytree(ROOT / "dags", root / "dags")

    def run(name):
        folder = root / "terraform/stacks" / name
        env = {**attached, "TF_DATA_DIR": str(root / name)}
        # Their modules are all that they lack: the provider is running.
        assert terraform(folder, env, "get").returncode == 0
        pass_all_runs(folder, env)

    with ThreadPoolExecutor(2) as pool:
        yield {name: pool.submit(run, name) for name in STACKS}


@pytest.mark.parametrize("name", STACKS)
def test_terraform_tests(runs, name):
    runs[name].result()


@pytest.mark.parametrize("name", STACKS)
def test_a_stack_is_a_complete_root(name):
    check_completeness(f"stacks/{name}")
    folder = SOURCE / "stacks" / name
    assert (folder / "providers.tf").is_file()
    assert (folder / "versions.tf").read_text() == (SOURCE / "versions.tf").read_text()
    assert (folder / LOCK_FILE).read_text() == (SOURCE / LOCK_FILE).read_text()
    assert "USD a month" in (folder / "README.md").read_text()


def test_airflow_reads_what_stacks_publish(tmp_path, offline):
    """The documents that their Terraform tests hold the stacks to."""

    def published(name):
        tests = SOURCE / f"stacks/{name}/tests/{name}.tftest.hcl"
        document = asserted(tests, "jsondecode(aws_ssm_parameter.airflow.value)")
        return json.dumps(evaluated(document, tmp_path, offline))

    told = parse_multi_node(published("multi_node"))
    assert told.file_system.id_parameter.startswith("/airflow/variables/")
    told = parse_config(published("job_comparison"))
    assert (told.targets, told.topic_arn, told.log_group) == ({}, None, None)


# What Airflow itself depends on, so that MWAA has it.
AIRFLOWS_OWN = {
    *("apache-airflow", "apache-airflow-core", "apache-airflow-task-sdk"),
    *("asgiref", "boto3", "botocore", "urllib3"),  # the last is botocore's own
    # Of the API server, which the pages run in.
    *("cachetools", "croniter", "fastapi", "itsdangerous", "sqlalchemy"),
}


def test_mwaa_installs_what_dags_and_plugins_import():
    lines = (SOURCE / "stacks/airflow/requirements.txt").read_text().splitlines()
    installed = {re.split(r"[\[=<>]", line)[0] for line in lines if line and line[0] != "#"}
    files = [*(ROOT / "plugins").rglob("*.py"), *(ROOT / "dags").glob("*.py")]
    modules = set().union(*map(imported, files))
    ours = {"batchmark", "batchmark_job", "airflow"}
    distributions = packages_distributions()
    needed = {distributions[name][0] for name in modules - ours - sys.stdlib_module_names}
    assert {name.lower() for name in needed} - AIRFLOWS_OWN <= installed
    assert "apache-airflow-providers-amazon" in installed
