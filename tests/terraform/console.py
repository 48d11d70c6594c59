"""What Terraform makes of an expression."""

import re
from pathlib import Path
from typing import Any

from laptop.terraform import Terraform


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
