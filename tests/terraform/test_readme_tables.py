"""The tables of inputs and outputs in Terraform's READMEs."""

import shutil
import subprocess
import sys

import pytest

from tests.terraform.conftest import SOURCE

VARIABLES = """
variable "zone" {
  description = <<-EOT
    Either "a" | "b",
    in that order
  EOT
  type        = string
}

variable "limits" {
  description = "Say \\"hi\\" to $${name}"
  type        = map(object({ cpus = optional(number, 1), zones = list(object({ id = string })) }))
  default     = { "g5.xlarge" = { cpus = 4 } }
}

variable "key_arn" {
  description = "Key; none for AWS's own"
  type        = string
  default     = null
  sensitive   = true
}

variable "types" {
  description = "Many"
  type        = set(string)
  default     = ["c5.2xlarge", "c5n.2xlarge", "m5.2xlarge", "g4dn.xlarge", "g5.xlarge"]
}
"""
OUTPUTS = """
output "secret" {
  description = "Not to be shown"
  value       = 1
  sensitive   = true
}

output "arn" {
  description = "The thing"
  value       = 2
}
"""
README = """# thing

Words.

## Inputs

stale

## Between

More words with ## in them.

## Outputs
"""
TABLES = r"""# thing

Words.

## Inputs

| name | type | default | what it is |
|---|---|---|---|
| `key_arn` | `string` | `null` | Key; none for AWS's own (sensitive) |
| `limits` | `map(object)` | `{"g5.xlarge": {"cpus": 4}}` | Say "hi" to ${name} |
| `types` | `set(string)` | `[...]` | Many |
| `zone` | `string` | required | Either "a" \| "b", in that order |

## Between

More words with ## in them.

## Outputs

| name | what it is |
|---|---|
| `arn` | The thing |
| `secret` | Not to be shown (sensitive) |
"""


def tables(*arguments):
    return subprocess.run(
        [sys.executable, SOURCE / "readme_tables.py", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def thing(tmp_path):
    folder = tmp_path / "thing"
    folder.mkdir()
    (folder / "variables.tf").write_text(VARIABLES)
    (folder / "outputs.tf").write_text(OUTPUTS)
    (folder / "README.md").write_text(README)
    return folder


def test_only_the_two_sections_are_rewritten_or_added_at_the_end(thing):
    result = tables(thing)
    assert result.returncode == 0, result.stderr
    assert (thing / "README.md").read_text() == TABLES
    (thing / "README.md").write_text("# thing")
    assert tables(thing).returncode == 0
    inputs = TABLES[TABLES.index("## Inputs") : TABLES.index("## Between")]
    outputs = TABLES[TABLES.index("## Outputs") :]
    assert (thing / "README.md").read_text() == f"# thing\n\n{inputs}{outputs}"


def test_a_readme_that_is_up_to_date_stays_and_check_names_one_that_is_not(thing, tmp_path):
    other = shutil.copytree(thing, tmp_path / "other")
    assert tables(thing, other).returncode == 0
    again = tables(thing)
    assert (again.returncode, again.stdout) == (0, "")
    assert tables("--check", thing, other).returncode == 0
    (thing / "variables.tf").write_text(VARIABLES.replace("Many", "Several"))
    result = tables("--check", thing, other)
    assert result.returncode == 1
    assert "thing/README.md" in result.stderr
    assert "other/README.md" not in result.stderr
    assert "make tables" in result.stderr
    assert (thing / "README.md").read_text() == TABLES
    assert tables(thing).returncode == 0
    assert (thing / "README.md").read_text() == TABLES.replace("Many", "Several")


@pytest.mark.parametrize(
    ("file", "line", "message"),
    [
        ("variables.tf", '  description = "Many"\n', ": no description for variable types"),
        ("outputs.tf", '  description = "The thing"\n', ": no description for output arn: add one"),
        ("outputs.tf", "}\n", " is not valid HCL: "),
    ],
)
def test_what_is_not_documented_is_refused(thing, file, line, message):
    code = thing / file
    assert line in code.read_text()
    code.write_text(code.read_text().replace(line, ""))
    result = tables(thing)
    assert result.returncode == 1
    assert f"thing/{file}{message}" in result.stderr
    assert (thing / "README.md").read_text() == README


def test_a_folder_without_code_or_readme_is_refused(thing, tmp_path):
    (thing / "README.md").unlink()
    result = tables(thing, tmp_path)
    assert result.returncode == 1
    assert "thing/README.md is missing" in result.stderr
    assert "has no variables.tf or outputs.tf" in result.stderr
