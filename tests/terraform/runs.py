"""What Terraform makes of its tests, each run where it is cheapest, and of an expression."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from laptop.terraform import Terraform

RUN = re.compile(r'^run "\w+" \{\n.*?^\}\n', re.MULTILINE | re.DOTALL)
COMMON = re.compile(r"^variables \{\n.*?^\}\n", re.MULTILINE | re.DOTALL)
EXPECTED = re.compile(r"^  expect_failures = \[([^]]*)\]$", re.MULTILINE)
PASSED = re.compile(r"Success! (\d+) passed, 0 failed")


def refuses_inputs(run: str) -> bool:
    """Whether all that it expects is that variables are refused."""
    expected = EXPECTED.search(run)
    checks = [name.strip() for name in expected[1].split(",") if name.strip()] if expected else []
    return bool(checks) and all(name.startswith("var.") for name in checks)


def pass_all_runs(folder: Path, env: Mapping[str, str]) -> None:
    """`terraform test` in a copy, which it changes: all runs must pass.

    A variable is refused by its validation alone. So runs that expect no more are taken where there
    is nothing but the variables: neither a provider is asked nor a graph of resources built.
    """
    folder = folder.resolve()
    inputs = folder.with_name(f"{folder.name}-inputs")
    (inputs / "tests").mkdir(parents=True)
    for file in filter(Path.is_file, folder.iterdir()):
        if file.name == "variables.tf" or file.suffix not in (".tf", ".hcl"):
            shutil.copy(file, inputs)  # a validation may look for a file, too
    for values in (folder / "tests").glob("*.tfvars"):
        shutil.copy(values, inputs / "tests")
    counts = {inputs: 0, folder: 0}
    for file in (folder / "tests").glob("*.tftest.hcl"):
        text = file.read_text()
        runs = RUN.findall(text)
        refusals = list(filter(refuses_inputs, runs))
        counts[inputs] += len(refusals)
        counts[folder] += len(runs) - len(refusals)
        if refusals:
            given = COMMON.findall(text)
            (inputs / "tests" / file.name).write_text("\n".join([*given, *refusals]))
            for run in refusals:
                text = text.replace(run, "")
            file.write_text(text)
    for where, count in counts.items():
        if count:
            result = terraform(where, env, "test", "-no-color")
            said = result.stdout + result.stderr
            assert result.returncode == 0, said
            assert [int(number) for number in PASSED.findall(said)] == [count], said


def terraform(folder: Path, env: Mapping[str, str], *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["terraform", *args], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


def asserted(tests: Path, expression: str) -> str:
    """What the one assertion of a Terraform test says that an expression is, an object."""
    document = re.escape(expression) + r" == ({\n.*?^    })"
    (found,) = re.findall(document, tests.read_text(), re.MULTILINE | re.DOTALL)
    return str(found)


def evaluated(expression, folder, offline) -> Any:
    (folder / "main.tf").write_text(f"locals {{\n  given = {expression}\n}}\n")
    stack = Terraform(folder, data_dir=folder, state=folder / "none.tfstate", env=offline)
    return stack.evaluate("local.given", ())


def rendered(template, variables, folder, offline) -> str:
    """A template, with the variables as HCL."""
    return evaluated(f'templatefile("{template}", {{ {variables} }})', folder, offline)
