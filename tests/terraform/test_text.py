"""What holds in Terraform's text: for every variable that users set, job definition and policy."""

import re
from functools import cache

import hcl2
import pytest

from tests.terraform.conftest import SOURCE

STACKS = [SOURCE, *sorted((SOURCE / "stacks").iterdir())]
FOLDERS = [*STACKS, *sorted((SOURCE / "modules").iterdir())]
ANY_TEXT = {"ami_release"}


@cache
def blocks(folder, kind):
    """Each block of a kind by its name, from all files of a folder."""
    options = hcl2.SerializationOptions(explicit_blocks=False)
    found = {}
    for file in sorted(folder.glob("*.tf")):
        with file.open() as text:
            for block in hcl2.load(text, serialization_options=options).get(kind, ()):
                ((name, content),) = block.items()
                found[name.strip('"')] = content
    return found


def is_checked(folder, name):
    """Whether a variable refuses something, or a module does so with what it is given."""
    variable = blocks(folder, "variable")[name]
    if variable["type"] in ("bool", "${bool}") or variable.get("validation"):
        return True
    modules = [
        (module, (folder / module["source"].strip('"')).resolve())
        for module in blocks(folder, "module").values()
    ]
    return any(
        f"var.{name}" in str(value)
        and argument in blocks(source, "variable")
        and is_checked(source, argument)
        for module, source in modules
        for argument, value in module.items()
    )


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_variable_has_a_type_and_a_description(folder):
    lacking = [
        name
        for name, variable in blocks(folder, "variable").items()
        if not variable.get("type") or not variable.get("description")
    ]
    assert not lacking


@pytest.mark.parametrize("folder", STACKS, ids=lambda folder: folder.name)
def test_a_variable_refuses_what_can_not_be_meant_and_drops_no_misspelt_field(folder):
    """As Terraform does where a type has optional fields: leave it to a module that is also given
    what was written, or take a map and list the fields."""
    variables = blocks(folder, "variable")
    assert {name for name in variables if not is_checked(folder, name)} <= ANY_TEXT
    assert [name for name in variables if "optional(" in str(variables[name]["type"])] == []


FILES = [
    path
    for path in sorted(SOURCE.rglob("*.tf"))
    if ".terraform" not in path.parts and path.name != "variables.tf"
]
TEXTS = [path.read_text() for path in FILES]
LOGS = re.compile(r'logDriver\s*=\s*"awslogs"\s*options\s*=\s*\{([^{}]*)\}')
TEXT = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
# "*NAME" looks as if it were NAME's alone, and is whatever ends so; ":*:" is any region or account.
LEADING_WILDCARD = re.compile(r"^\*[^*]|[:/]\*[\w$:-]")
ALLOWED = {
    ("modules/airflow_access/main.tf", "*_Batch_*"): (
        "to look at hosts of queues of others, whose environments' names are not known"
    ),
    ("modules/encryption/main.tf", "log-group:*${var.name}*"): (
        "a condition of CloudWatch Logs' own use of the key: each stack's groups begin differently"
    ),
    ("modules/monitoring/main.tf", "events[0].arn}:*:*"): "all streams of one group",
    ("stacks/airflow/iam.tf", ":*:airflow-celery-*"): "the queue lies in an account of MWAA's",
    ("stacks/airflow/iam.tf", "kms:*:${local.account_id}:key/*"): "not_resources: no key of ours",
    ("stacks/eks_gpu_sharing/iam.tf", ":*:repository/eks/*"): "lies in an account of EKS's",
    ("stacks/eks_gpu_sharing/iam.tf", ":*:repository/amazon-k8s-cni*"): "as eks/*",
    ("stacks/eks_gpu_sharing/iam.tf", ":*:repository/amazon/aws-network-policy-agent"): "as eks/*",
}


def places(pattern):
    """Each match of a pattern in Terraform's text, with its file and line."""
    for path in FILES:
        for line in path.read_text().splitlines():
            for found in pattern.finditer(line):
                yield path.relative_to(SOURCE).as_posix(), found, line


def test_no_job_drops_lines_of_its_log():
    texts = list(filter(re.compile('"aws_batch_job_definition" "|logDriver').search, TEXTS))
    assert len(texts) == 3, "all job definitions are looked at"
    for text in texts:
        options = LOGS.findall(text)
        assert len(options) == text.count("logDriver") == text.count('aws_batch_job_definition" "')
        for each in options:
            assert re.search(r'^\s*mode\s*=\s*"blocking"$', each, re.MULTILINE)


def test_what_a_policy_names_begins_with_no_wildcard_but_for_a_reason():
    found = {
        (file, text[1])
        for file, text, line in places(TEXT)
        if LEADING_WILDCARD.search(text[1]) and "fileset(" not in line
    }
    listed = {
        (file, text): [(place, part) for place, part in ALLOWED if file == place and part in text]
        for file, text in found
    }
    assert [each for each, reasons in listed.items() if not reasons] == []
    assert {each for reasons in listed.values() for each in reasons} == set(ALLOWED)


def test_all_resources_are_allowed_only_with_the_reason_beside_it():
    anything = re.compile(r'^\s*resources\s*=\s*\["\*"\](?P<reason>\s*#)?')
    assert [(file, line) for file, found, line in places(anything) if not found["reason"]] == []
