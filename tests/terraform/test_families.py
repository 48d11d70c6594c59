"""Each family of GPU instances that can't be used is refused by its name, and why."""

import json
import re
import shutil

import pytest

from batchmark.aws.instance_families import FILE, instance_families
from tests.terraform.runs import terraform

pytestmark = pytest.mark.skipif(not shutil.which("terraform"), reason="no terraform here")

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
