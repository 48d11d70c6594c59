"""What Terraform makes of an expression."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any


def asserted(tests: Path, expression: str) -> str:
    """What the one assertion of a Terraform test says that an expression is, an object."""
    document = re.escape(expression) + r" == ({\n.*?^    })"
    (found,) = re.findall(document, tests.read_text(), re.MULTILINE | re.DOTALL)
    return str(found)


def evaluated(expression, folder, offline) -> Any:
    (folder / "main.tf").write_text(f"locals {{\n  given = {expression}\n}}\n")
    answer = subprocess.run(
        ["terraform", "console"],
        input="jsonencode(local.given)",
        cwd=folder,
        env={**offline, "TF_DATA_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    # Quoted twice: by jsonencode, and by the console.
    return json.loads(json.loads(answer))


def rendered(template, variables, folder, offline) -> str:
    """A template, with the variables as HCL."""
    text: str = evaluated(f'templatefile("{template}", {{ {variables} }})', folder, offline)
    return text
