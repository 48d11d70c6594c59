"""A misspelt field of an input is refused with what was meant, by `make try-job` as in a plan."""

import re
import shutil

import pytest

from laptop.errors import TerraformError
from laptop.own_jobs.jobs_file import OWN_JOBS
from laptop.terraform import Terraform
from tests.terraform.conftest import SOURCE

pytestmark = pytest.mark.skipif(not shutil.which("terraform"), reason="no terraform here")


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
        ('axis = { parameter = "n", sizes = [1], size = [2] }', "axis of a has size; correct"),
        ('images = { cpu = "x", cuda = "y", cdua = "z" }', "images of a has cdua; correct"),
        ('mounts = [{ source = "/a", path = "/b", readonly = false }]', "readonly in a, which no"),
    ],
)
def test_a_misspelt_key_within_a_field_is_refused(evaluate, given, said):
    image = "" if "images" in given else 'image = "x:1", '
    word = "Ref::n" if "axis" in given else "n"
    with pytest.raises(TerraformError) as refused:
        evaluate(f'own_jobs = {{ a = {{ {image}command = ["x", "{word}"], {given} }} }}')
    assert said in " ".join(str(refused.value).replace("│", "").split())


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
