"""Commands in the README and the docs are ones that there are."""

import contextlib
import io
import re
import subprocess
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted(ROOT.glob("*/README.md")),
    ROOT / "job_container" / "own_workloads" / "README.md",
    ROOT / "terraform" / "stacks" / "airflow" / "README.md",
]
TEXT = {path: path.read_text() for path in PAGES}


def targets():
    return set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_each_make_target_that_is_named_exists():
    for path, text in TEXT.items():
        named = set(re.findall(r"(?:`|^)make ([a-z][a-z0-9-]*)", text, re.MULTILINE))
        assert named <= targets(), path


def test_each_make_target_is_named_somewhere():
    everywhere = "\n".join(TEXT.values())
    helped = re.findall(r"^([a-z][a-z0-9-]*):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    unnamed = [name for name in helped if f"make {name}" not in everywhere]
    assert unnamed == ["help"]  # which `make` alone shows


@cache
def help_of(module, *subcommand):
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), pytest.raises(SystemExit) as ended:
        import_module(module).main([*subcommand, "--help"])
    assert ended.value.code == 0
    return shown.getvalue()


@pytest.mark.parametrize(
    ("module", "command"),
    [("batchmark_job.command_line", "batchmark-job"), ("batchmark.command_line", "batchmark")],
)
def test_each_option_of_our_commands_exists(module, command):
    lines = [
        line.split("#")[0]
        for text in TEXT.values()
        for line in text.replace("\\\n", " ").splitlines()
        if f".venv/bin/{command} " in line
    ]
    assert lines
    for line in lines:
        used = line.split(f".venv/bin/{command} ", 1)[1]
        words = re.split(r"[`|]", used)[0].split()
        subcommand = words[: 2 if words[0] == "history" else 1]
        shown = help_of(module, *subcommand)
        for option in re.findall(r"--[a-z-]+", " ".join(words)):
            assert option in shown, line


def test_the_readme_says_how_long_a_target_takes_as_the_makefile_does():
    helped = dict(
        re.findall(r"^([a-z][a-z0-9-]*):.*## (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    )
    said = re.findall(
        r"^make ([a-z-]+) +#.*: (.*? minutes)", TEXT[ROOT / "README.md"], re.MULTILINE
    )
    assert [name for name, _ in said] == ["demo", "test-unit", "test"]
    assert [name for name, duration in said if f"({duration}" not in helped[name]] == []


def test_the_readme_says_what_an_installation_takes_as_it_does_itself():
    said = re.search(r"installs everything into `.venv` \((.*)\)\. ", TEXT[ROOT / "README.md"])[1]
    assert said in (ROOT / "laptop" / "install.py").read_text()


def test_make_alone_shows_each_target_in_its_group_and_what_a_user_needs_first():
    shown = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    _, use, check, *others = shown.split("\n\n")
    assert {"install", "demo", "up", "down", "image", "clean"} <= set(shown_in(use))
    assert all(name == "lint" or name.startswith("test") for name in shown_in(check))
    assert not any(name.startswith("bench-") for name in shown_in(use + check))
    assert len(others) == 2
    helped = re.findall(r"^([a-z][a-z0-9-]*):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert shown_in(shown) == helped


def shown_in(text):
    return re.findall(r"^  ([a-z0-9-]+) ", text, re.MULTILINE)


def test_the_readme_is_one_screen_of_words_with_two_pictures():
    readme = TEXT[ROOT / "README.md"]
    assert len(readme.split()) < 900
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", readme)
    assert len(pictures) == 2
    assert all((ROOT / picture).exists() for picture in pictures)


def test_each_link_to_a_file_leads_somewhere():
    for path, text in TEXT.items():
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            if "://" not in link and not link.startswith("mailto:"):
                assert (path.parent / link).exists(), (path, link)
