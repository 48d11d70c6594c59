"""The way to the AWS provider 6 that the docs describe, as far as it can be gone without it."""

import os
import re
import shutil

import pytest

from tests.documented import the_block, typed
from tests.terraform.conftest import SOURCE

pytestmark = pytest.mark.skipif(not shutil.which("terraform"), reason="no terraform here")

OLD = re.compile(
    r"\bcompute_environment_name(_prefix)? *=|region\.current\.name|5\.100"
    r'|mock_data "aws_region" \{\s+defaults = \{ name'
)


def test_the_documented_lines_change_pins_and_names_everywhere(tmp_path):
    ours = shutil.ignore_patterns(".terraform*", "*.tfstate*")
    shutil.copytree(SOURCE, tmp_path / "terraform", ignore=ours)
    pins, names = the_block('sed -i \'s/"~> 5.100"'), the_block("sed -i -E")
    typed("\n".join(pins), tmp_path, os.environ)
    formatted = typed("\n".join(names), tmp_path, os.environ)
    assert "terraform/modules/batch/main.tf" in formatted
    files = [*tmp_path.rglob("*.tf"), *tmp_path.rglob("*.hcl")]
    left = {str(path.relative_to(tmp_path)) for path in files if OLD.search(path.read_text())}
    assert left == set()
    assert typed("terraform fmt -check -recursive terraform", tmp_path, os.environ) == ""
