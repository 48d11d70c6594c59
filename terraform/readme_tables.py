"""Rewrites the tables of inputs and outputs in Terraform READMEs from the code (`make tables`).

Each folder's `## Inputs` and `## Outputs` come from its variables.tf and outputs.tf. A section ends
at the next `## ` or the end of the file. The rest of the README stays as it is.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hcl2
from lark.exceptions import LarkError

ROOT = Path(__file__).resolve().parent
CODE_FILES = {"variable": "variables.tf", "output": "outputs.tf"}
LONGEST_DEFAULT = 60  # judgment: longer ones make tables hard to read

_OPTIONS = hcl2.SerializationOptions(
    with_comments=False,
    explicit_blocks=False,
    preserve_heredocs=False,
    preserve_scientific_notation=False,
)

Rows = list[Sequence[str]]


class TableError(Exception):
    """A README's tables can't be written; the message names the file and the problem."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Rewrite or check the READMEs.

    Returns 1 if tables can't be made or, with `--check`, are stale; otherwise 0.
    """
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if any table is stale"
    )
    parser.add_argument(
        "folders",
        nargs="*",
        type=Path,
        help="folders to update; default: this folder, its modules and its stacks",
    )
    options = parser.parse_args(arguments)
    problems, stale = [], []
    for folder in options.folders or default_folders():
        readme = folder / "README.md"
        try:
            text = updated(folder)
        except TableError as error:
            problems.append(str(error))
            continue
        if text != readme.read_text(encoding="utf-8"):
            stale.append(_shown(readme))
            if not options.check:
                readme.write_text(text, encoding="utf-8")
    for problem in problems:
        print(problem, file=sys.stderr)
    if stale and options.check:
        print(f"stale tables in {', '.join(stale)}: run `make tables`", file=sys.stderr)
    elif stale:
        print("\n".join(f"rewrote {readme}" for readme in stale))
    return 1 if problems or (stale and options.check) else 0


def default_folders() -> list[Path]:
    """List the core stack, each module and each optional stack."""
    found = [ROOT, *sorted(ROOT.glob("modules/*")), *sorted(ROOT.glob("stacks/*"))]
    return [
        folder for folder in found if any((folder / name).exists() for name in CODE_FILES.values())
    ]


def updated(folder: Path) -> str:
    """Return the folder's README with tables that match its code.

    Raises:
        TableError: a file or description is missing, or the HCL is invalid.
    """
    code = [folder / name for name in CODE_FILES.values()]
    if not any(path.exists() for path in code):
        raise TableError(f"{_shown(folder)} has no {' or '.join(CODE_FILES.values())}")
    readme = folder / "README.md"
    try:
        text = readme.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise TableError(f"{_shown(readme)} is missing: create it") from None
    text = _with_section(text, "Inputs", ("name", "type", "default", "what it is"), inputs(folder))
    return _with_section(text, "Outputs", ("name", "what it is"), outputs(folder))


def inputs(folder: Path) -> Rows:
    """Return the name, short type, default and description of each variable, sorted by name."""
    return [
        (
            f"`{name}`",
            f"`{_short_type(block.get('type', 'any'))}`",
            f"`{_short(block['default'])}`" if "default" in block else "required",
            description,
        )
        for name, description, block in _declared(folder, "variable")
    ]


def outputs(folder: Path) -> Rows:
    """Return the name and description of each output, sorted by name."""
    return [(f"`{name}`", description) for name, description, _ in _declared(folder, "output")]


def _declared(folder: Path, kind: str) -> list[tuple[str, str, dict[str, Any]]]:
    path = folder / CODE_FILES[kind]
    if not path.exists():
        return []
    try:
        code = hcl2.loads(path.read_text(encoding="utf-8"), serialization_options=_OPTIONS)
    except LarkError as error:
        first_line = str(error).splitlines()[0]
        raise TableError(f"{_shown(path)} is not valid HCL: {first_line}") from error
    blocks = {
        _plain(label): block for entry in code.get(kind, []) for label, block in entry.items()
    }
    declared, undocumented = [], []
    for name, block in sorted(blocks.items()):
        description = " ".join(str(_plain(block.get("description", ""))).split())
        if not description:
            undocumented.append(name)
        if block.get("sensitive") is True:
            description += " (sensitive)"
        declared.append((name, description, block))
    if undocumented:
        raise TableError(
            f"{_shown(path)}: no description for {kind} {', '.join(undocumented)}: add one"
        )
    return declared


def _plain(value: Any) -> Any:
    """Strip the quotes around strings, and the ${...} that the parser adds to expressions."""
    if isinstance(value, dict):
        return {_plain(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, str) and value.startswith('"'):
        return json.loads(value, strict=False).replace("$${", "${").replace("%%{", "%{")
    if isinstance(value, str) and value.startswith("${"):
        return value[2:-1]
    return value


def _short_type(expression: str) -> str:
    """Shorten a type: map(object({...})) becomes map(object)."""
    return re.sub(r"(object|tuple)\(.*[}\]]\)", r"\1", _plain(expression), flags=re.DOTALL)


def _short(default: Any) -> str:
    text = json.dumps(_plain(default), ensure_ascii=False)
    if len(text) <= LONGEST_DEFAULT:
        return text
    if text[0] == '"':
        return f'{text[: LONGEST_DEFAULT - 4]}..."'
    return f"{text[0]}...{text[-1]}"


def _with_section(readme: str, title: str, columns: Sequence[str], rows: Rows) -> str:
    """Replace the section's content with the table, or append the section if it's missing."""
    table = [columns, ["---"] * len(columns), *rows]
    lines = ["| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in table]
    lines[1] = lines[1].replace(" ", "")
    section = f"## {title}\n\n" + ("\n".join(lines) if rows else "None.") + "\n"
    present = re.search(rf"^## {title}\n.*?(?=^## |\Z)", readme, flags=re.MULTILINE | re.DOTALL)
    if present:
        before, after = readme[: present.start()], readme[present.end() :]
        return before + section + ("\n" if after else "") + after
    return readme.rstrip("\n") + "\n\n" + section if rows else readme


def _shown(path: Path) -> str:
    return os.path.relpath(path)


if __name__ == "__main__":
    sys.exit(main())
