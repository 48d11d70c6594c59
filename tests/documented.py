"""The commands that the README and the docs show, word for word, and how tests type them."""

import io
import os
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest.mock import patch

import yaml

from tests.paths import DOCS, ROOT

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(DOCS.glob("*.md")),
    *sorted(ROOT.glob("*/README.md")),
    ROOT / "job_container" / "own_jobs" / "README.md",
    ROOT / "job_container" / "own_workloads" / "README.md",
    ROOT / "terraform" / "stacks" / "airflow" / "README.md",
]
TEXT = {path: path.read_text() for path in PAGES}

FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
PROGRAM = re.compile(
    r"(?:[A-Z_]+=\S+ )*"
    r"(?:airflow|apt-get|aws|batchmark(?:-job)?|cd|docker|make|mkdir|pip|python3?|sed|terraform|"
    r"\.venv/bin/\S+|\.ci/run) ?"
)
NAMES = ("docker buildx", "docker compose")  # of programs, without a command of theirs
BESIDE_PYTHON = Path(sys.executable).parent


@dataclass(frozen=True)
class Command:
    """A command, and the first of its block, which is itself where it stands in a sentence."""

    page: Path
    text: str
    first: str


@cache
def commands() -> tuple[Command, ...]:
    return tuple(
        Command(page, line, lines[0])
        for page, text in TEXT.items()
        for lines in (*_blocks(text), *_inline(text))
        for line in lines
    )


def _blocks(text: str) -> Iterator[list[str]]:
    """The commands of each block of a shell, and each step of a workflow."""
    for _, language, block in FENCED.findall(text):
        if language in ("", "sh"):
            lines = re.sub(r"\\\n *", "", block).splitlines()
            yield [re.sub(r" +# .*", "", line).strip() for line in lines if line]
        elif language == "yaml" and "jobs" in (workflow := yaml.safe_load(block)):
            for job in workflow["jobs"].values():
                yield from ([step["run"].strip()] for step in job["steps"] if "run" in step)


def _inline(text: str) -> Iterator[list[str]]:
    for code in re.findall(r"`([^`]+)`", FENCED.sub("", text)):
        line = " ".join(code.split())
        if " " in line and PROGRAM.match(line) and line not in NAMES:
            yield [line]


def documented(start: str) -> list[str]:
    """All commands that begin so, each once."""
    found = sorted({command.text for command in commands() if command.text.startswith(start)})
    assert found, f"no page has a command {start!r}"
    return found


def the_command(start: str) -> str:
    """The only one that begins so, or is just that."""
    found = documented(start)
    (command,) = [start] if start in found else found
    return command


def the_block(start: str) -> list[str]:
    """The commands of the block that begins so."""
    blocks: dict[tuple[Path, str], list[str]] = defaultdict(list)
    for command in commands():
        if command.first.startswith(start):
            blocks[command.page, command.first].append(command.text)
    (block,) = [block for block in blocks.values() if len(block) > 1]
    return block


def arguments(command: str) -> list[str]:
    """What a program of ours is given."""
    words = shlex.split(command, comments=True)
    return next(words[at + 1 :] for at, word in enumerate(words) if not re.match("[A-Z_]+=", word))


def typed(command: str, cwd: Path, env: Mapping[str, str], **placeholders: str) -> str:
    """What a command prints in a shell; words such as QUEUE stand for their values."""
    for name, value in placeholders.items():
        assert name in command
        command = re.sub(rf"\b{name}\b", lambda _, value=value: value, command)
    done = subprocess.run(
        ["bash", "-ec", re.sub(r"(?<!/)\.venv/bin/", f"{BESIDE_PYTHON}/", command)],
        cwd=cwd,
        env={**env, "PATH": f"{BESIDE_PYTHON}:{os.environ['PATH']}", "AWS_PAGER": ""},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def typed_to_aws(command: str, env: Mapping[str, str], code: int = 0, **placeholders: str) -> str:
    """The same of the AWS CLI alone, in this process, which takes half of the time."""
    from awscli.clidriver import create_clidriver

    words = [placeholders.get(word, word) for word in arguments(command)]
    with patch.dict(os.environ, env), redirect_stdout(io.StringIO()) as said:
        assert create_clidriver().main(words) == code, command
    return said.getvalue()


def recipe(command: str) -> str:
    """What make would run for it, and does not."""
    dry = [*shlex.split(command), "--dry-run", "--no-print-directory"]
    return subprocess.run(dry, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
