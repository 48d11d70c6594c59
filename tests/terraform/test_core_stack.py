"""The core stack and its modules through the real Terraform, without AWS."""

import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from batchmark.core.own_jobs import parse_own_jobs
from tests.documented import the_block, typed
from tests.terraform.conftest import SOURCE
from tests.terraform.runs import asserted, evaluated, pass_all_runs, terraform

MODULES = sorted(f"modules/{path.name}" for path in (SOURCE / "modules").iterdir())
FILES = ("main.tf", "variables.tf", "outputs.tf", "versions.tf", "README.md")


# 15 s alone, and minutes where applies and containers start beside them.
pytestmark = pytest.mark.timeout(2400)


@pytest.fixture(scope="module")
def runs(stack_dir, attached):
    """`terraform test` in every folder, two at a time: most of it is one busy core."""
    with ThreadPoolExecutor(2) as pool:
        yield {
            folder: pool.submit(pass_all_runs, stack_dir / folder, attached)
            for folder in (".", *MODULES)
        }


@pytest.mark.parametrize("folder", [".", *MODULES])
def test_terraform_tests(runs, folder):
    runs[folder].result()


def test_a_target_that_shares_nothing_is_not_told_of_replicas(stack_dir, attached, tmp_path):
    module = tmp_path / "batch"
    shutil.copytree(stack_dir / "modules/batch", module)
    for file in (module / "tests").glob("*.tftest.hcl"):
        file.unlink()
    (module / "tests/too_much.tftest.hcl").write_text(
        'mock_provider "aws" {\n  source          = "./tests/mocks"\n  override_during = plan\n}\n'
        'run "too_much" {\n  command = plan\n  variables {\n'
        '    target_overrides = { "c5.2xlarge" = { vcpus = 64, memory_mib = 65536 } }\n  }\n}\n'
    )
    result = terraform(module, attached, "test", "-no-color")
    said = " ".join(re.sub("[│╷╵]", "", result.stderr + result.stdout).split())
    assert result.returncode == 1
    assert "c5.2xlarge has 8 vCPUs, and target_overrides asks for 64" in said
    assert "and target_overrides asks for 65536" in said
    assert "replicas" not in said


def test_a_policy_that_is_longer_than_iam_takes_is_refused(stack_dir, attached, tmp_path):
    """Mocks have no document, and a Terraform test can't make a long one."""
    module = tmp_path / "airflow_access"
    shutil.copytree(stack_dir / "modules/airflow_access", module)
    (tests,) = (module / "tests").glob("*.tftest.hcl")
    common = tests.read_text().partition('\nrun "')[0]

    def run(length, expected):
        document = json.dumps({"Id": ""}).ljust(length)
        return f"""
run "of_{length}" {{
  command = plan
  override_data {{
    target          = data.aws_iam_policy_document.run
    override_during = plan
    values          = {{ minified_json = {json.dumps(document)} }}
  }}
  {expected}
}}
"""

    refused = "expect_failures = [aws_iam_policy.this]"
    tests.write_text(common + run(6144, "") + run(6145, refused))
    result = terraform(module, attached, "test", "-no-color")
    assert result.returncode == 0, result.stdout + result.stderr


def test_airflow_reads_the_own_jobs_that_are_published(tmp_path, offline):
    """The document that the root's Terraform test holds it to."""
    tests = SOURCE / "tests/stack.tftest.hcl"
    published = asserted(tests, "jsondecode(aws_ssm_parameter.own_jobs[0].value)")
    told = parse_own_jobs(json.dumps(evaluated(published, tmp_path, offline))).jobs
    assert [type(size) for size in told["thumbnails"].axis.sizes] == [int, int, float]
    assert told["thumbnails"].parameters == {"format": "png"}
    assert set(told["thumbnails"].job_definitions) == {"c5.2xlarge", "g5.xlarge"}
    assert (told["sum"].shell, told["quiet"].shell) == (True, False)


@pytest.mark.parametrize("folder", MODULES)
def test_a_module_is_complete(folder):
    missing = [name for name in FILES if not (SOURCE / folder / name).is_file()]
    assert not missing
    assert list((SOURCE / folder / "tests").glob("*.tftest.hcl"))


@pytest.mark.parametrize("folder", MODULES)
def test_a_module_takes_what_the_root_takes_and_newer_providers(folder):
    """A root narrows the version down; a module that did so could not be used in another's."""
    root, module = ((SOURCE / path / "versions.tf").read_text() for path in (".", folder))
    least = re.search(r'version = "~> ([\d.]+)"', root)[1]
    wanted = re.search(r'^      version = "(.+)"', module, re.MULTILINE)[1]
    assert re.fullmatch(rf">= {re.escape(least)}(, < \d+\.0)?", wanted)
    assert module.replace(wanted, f"~> {least}") == root


def test_only_the_root_knows_the_provider_and_the_local_cloud():
    for path in SOURCE.glob("modules/*/*.tf"):
        text = path.read_text()
        assert not re.search(r'^provider "', text, re.MULTILINE), path
        assert not re.search(r"local.cloud|localhost|endpoint_url|moto", text), path


OLD = re.compile(
    r"\bcompute_environment_name(_prefix)? *=|region\.current\.name|5\.100"
    r'|mock_data "aws_region" \{\s+defaults = \{ name'
)


def test_the_documented_lines_change_pins_and_names_everywhere(tmp_path, offline):
    ours = shutil.ignore_patterns(".terraform*", "*.tfstate*")
    shutil.copytree(SOURCE, tmp_path / "terraform", ignore=ours)
    pins, names = the_block('sed -i \'s/"~> 5.100"'), the_block("sed -i -E")
    typed("\n".join(pins), tmp_path, offline)
    formatted = typed("\n".join(names), tmp_path, offline)
    assert "terraform/modules/batch/main.tf" in formatted
    files = [*tmp_path.rglob("*.tf"), *tmp_path.rglob("*.hcl")]
    left = {str(path.relative_to(tmp_path)) for path in files if OLD.search(path.read_text())}
    assert left == set()
    assert typed("terraform fmt -check -recursive terraform", tmp_path, offline) == ""
