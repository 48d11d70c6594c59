"""What Terraform refuses by name: misspelt fields of inputs, and GPU families without use."""

import json
import re
import shutil

import pytest

from batchmark.aws.instance_families import FILE, instance_families
from laptop.errors import TerraformError
from laptop.own_jobs.jobs_file import OWN_JOBS
from laptop.terraform import Terraform
from tests.terraform.conftest import SOURCE
from tests.terraform.runs import terraform


@pytest.fixture
def evaluate(stack_dir, data_dir, attached, tmp_path):
    """The own jobs of a text of inputs, as `make try-job` reads them."""
    file = tmp_path / "job.tfvars"
    terraform = Terraform(stack_dir, data_dir=data_dir, state=tmp_path / "none", env=attached)

    def of(text):
        file.write_text(text)
        return terraform.evaluate(OWN_JOBS, [file])

    return of


@pytest.mark.parametrize(
    ("module", "variable", "where", "known"),
    [
        ("own_jobs", "own_jobs", "a", 'image = "x:1", command = ["x"], '),
        ("batch", "target_overrides", '"c5.2xlarge"', ""),
    ],
)
def test_each_field_if_misspelt_is_named_with_what_was_meant(
    evaluate, module, variable, where, known
):
    code = (SOURCE / "modules" / module / "variables.tf").read_text()
    (block,) = re.findall(rf'^variable "{variable}" \{{.*?^\}}', code, re.MULTILINE | re.DOTALL)
    fields = re.findall(r"^    (\w+) += optional\(", block, re.MULTILINE)
    misspelt = ", ".join(f"{field}_ = null" for field in fields)
    with pytest.raises(TerraformError) as refused:
        evaluate(f"{variable} = {{ {where} = {{ {known}{misspelt}, quick = null }} }}")
    said = " ".join(str(refused.value).split())
    assert len(fields) > 15
    assert f"{variable} has " in said
    assert re.search(r" quick (in|for) \S+, ", said), "like none: " + said
    assert ", ".join(sorted(fields)) in said
    for field in fields:
        (meant,) = re.findall(rf"\b{field}_ \w+ \S+ \((.*?)\?\)", said)
        assert field in meant.split(" or ")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('command = ["n"], images = { cpu = "x", cuda = "y", cdua = "z" }', ["images.cdua in a, "]),
        ('image = "x", comand = ["n"], time = 9', ["comand in a (command ", "time in a (timeout_"]),
        (
            'image = "x", command = ["Ref::n"], axis = { parameter = "n", size = [2] }, time = 9,'
            ' mounts = [{ source = "/a", path = "/b", readonly = false }]',
            ['attribute "sizes" is required', "time in a (", "axis.size in a, mounts.readonly in "],
        ),
    ],
)
def test_all_misspelt_fields_are_named_at_once_beside_what_is_then_missing(evaluate, given, said):
    with pytest.raises(TerraformError) as refused:
        evaluate(f"own_jobs = {{ a = {{ {given} }} }}")
    told = " ".join(str(refused.value).replace("│", "").split())
    assert [words for words in said if words not in told] == []


@pytest.mark.parametrize("given", ['{ a = "x:1" }', "{ a = null }"])
@pytest.mark.parametrize("variable", ["own_jobs", "target_overrides"])
def test_what_is_no_object_is_named(evaluate, variable, given):
    with pytest.raises(TerraformError) as refused:
        evaluate(f"{variable} = {given}")
    said = " ".join(str(refused.value).split())
    assert f"{variable} has a without fields; give an object for each name" in said


def test_what_is_left_out_has_its_default(evaluate):
    jobs = evaluate(
        'own_jobs = { a = { image = "x:1", command = ["x"], check = "true" },'
        ' b = { image = "y:1", command = ["y"], mounts = [{ source = "/a", path = "/b" }] } }'
    )
    assert [job["timeout_seconds"] for job in jobs.values()] == [3600, 3600]
    assert (jobs["a"]["check"], jobs["b"]["check"], jobs["a"]["targets"]) == ("true", None, [])
    assert jobs["b"]["mounts"][0]["read_only"] is True


RUN = """
run "all_families" {
  command = plan
  variables {
    %s
  }
}
"""


def test_each_refused_family_is_named_with_its_reason(stack_dir, attached, tmp_path):
    for path in ("variables.tf", FILE.name):
        shutil.copy(stack_dir / "modules/batch" / path, tmp_path)
    (tmp_path / "tests").mkdir()
    shutil.copy(stack_dir / "modules/batch/tests/terraform.tfvars", tmp_path / "tests")
    table = instance_families()
    types = {name: f"{name}.xlarge" for name in table.gpu_families}
    shared = ", ".join(
        f'"of-{name}" = {{ instance_type = "{each}", mode = "mps", max_replicas = 2 }}'
        for name, each in types.items()
    )
    given = {
        "list": f"gpu_instance_types = {json.dumps(list(types.values()))}",
        "map": f"shared_targets = {{ {shared} }}",
    }
    for name, variable in given.items():
        (tmp_path / f"tests/{name}.tftest.hcl").write_text(RUN % variable)

    result = terraform(tmp_path, attached, "test", "-no-color")

    said = " ".join(re.sub("[│╷╵]", "", result.stdout + result.stderr).split())
    assert result.returncode == 1
    for name, family in table.gpu_families.items():
        why = family.refused and table.refusals[family.refused]
        for named in (f"{types[name]}", f"{types[name]} for of-{name}"):
            assert (f" {named}, but {why}" in said) == (why is not None), named
