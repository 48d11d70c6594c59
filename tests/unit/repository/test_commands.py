"""Commands in the README and the docs are ones that there are."""

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from functools import cache
from importlib import import_module

import pytest

from tests.documented import TEXT, commands, the_command, typed, typed_to_aws
from tests.paths import ROOT

MAKEFILE = (ROOT / "Makefile").read_text()
TRACKED = ["git", "ls-files", "*.md"]
MARKDOWN = {
    ROOT / name: (ROOT / name).read_text()
    for name in subprocess.check_output(TRACKED, cwd=ROOT, text=True).splitlines()
}
HELPED = dict(re.findall(r"^([a-z][a-z0-9-]*):.*?##(.*)", MAKEFILE, re.MULTILINE))  # by target


def test_make_targets_are_those_that_are_named():
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", MAKEFILE, re.MULTILINE))
    for path, text in MARKDOWN.items():
        named = set(re.findall(r"(?:`|^)make ([a-z][a-z0-9-]*)", text, re.MULTILINE))
        assert named <= targets, path
    everywhere = "\n".join(TEXT.values())
    unnamed = [name for name in HELPED if f"make {name}" not in everywhere]
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


def test_the_readme_is_one_screen_and_says_how_long_things_take_as_they_do_themselves():
    readme = TEXT[ROOT / "README.md"]
    assert len(readme.split()) < 900
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", readme)
    assert len(pictures) == 2
    assert all((ROOT / picture).exists() for picture in pictures)
    said = re.findall(r"^make ([a-z-]+) +#.*: (.*? minutes)", readme, re.MULTILINE)
    assert [name for name, _ in said] == ["demo", "test", "test-all", "try-job"]
    assert [name for name, duration in said if f"({duration}" not in HELPED[name]] == []
    of_install = re.search(r"installs everything into `.venv` \((.*)\)\. ", readme)[1]
    assert of_install in (ROOT / "laptop" / "install.py").read_text()


def test_make_alone_shows_each_target_in_its_group_and_what_a_user_needs_first():
    def targets(text):
        return re.findall(r"^  ([a-z0-9-]+) ", text, re.MULTILINE)

    shown = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    _, use, check, *others = shown.split("\n\n")
    assert {"install", "demo", "up", "down", "image", "clean"} <= set(targets(use))
    assert all(name in {"lint", "fuzz"} or name.startswith("test") for name in targets(check))
    assert not any(name.startswith("bench-") for name in targets(use + check))
    assert len(others) == 2
    assert targets(shown) == list(HELPED)


def test_the_first_apply_begins_in_its_folder_with_one_region(tmp_path):
    (tmp_path / "terraform").mkdir()
    lines = [command.text for command in commands() if command.first == "cd terraform"]
    said = typed("\n".join([*lines, "pwd", "env"]), tmp_path, {}).splitlines()
    assert said[0] == str(tmp_path / "terraform")
    assert {"AWS_REGION=us-east-1", "TF_VAR_region=us-east-1"} <= set(said)
    (addresses,) = [line for line in said if line.startswith("TF_VAR_alert_emails=")]
    assert json.loads(addresses.partition("=")[2]) == ["you@example.org"]


def test_the_linters_are_installed_for_each_commit(tmp_path):
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    shutil.copy(ROOT / ".pre-commit-config.yaml", tmp_path)
    typed(the_command(".venv/bin/pre-commit install"), tmp_path, os.environ)
    assert "pre-commit" in (tmp_path / ".git" / "hooks" / "pre-commit").read_text()


def test_the_plugins_go_into_one_archive_with_the_results_schema(tmp_path):
    """`make plugins-zip`, in a copy."""
    for folder in ("plugins", "job_container"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("*.pyc"))
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "build").mkdir()
    (tmp_path / ".venv").symlink_to(sys.prefix)
    typed(f"{the_command('make plugins-zip')} --assume-old install", tmp_path, os.environ)
    names = zipfile.ZipFile(tmp_path / "build" / "plugins.zip").namelist()
    contract = {
        f"batchmark_job/result/{path.name}"
        for path in (ROOT / "job_container/batchmark_job/result").glob("*.py")
    }
    files = ["batchmark/runs/own_jobs/wrapper.sh", "batchmark/aws/instance_families.json"]
    assert {"batchmark_plugin.py", "batchmark/command_line.py", *files, *contract} <= {*names}
    assert not [name for name in names if "__pycache__" in name]


def test_the_aws_cli_knows_the_options_of_what_only_aws_can_do(capsys):
    nobody = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_MAX_ATTEMPTS": "1",
    }
    typed_to_aws(the_command("aws ce update-cost-allocation-tags-status"), nobody, code=255)
    assert "Could not connect to the endpoint URL" in capsys.readouterr().err


def test_each_link_to_a_file_or_a_heading_leads_to_one():
    for path, text in MARKDOWN.items():
        for link, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text):
            if "://" not in link and not link.startswith("mailto:"):
                page = (path.parent / link).resolve() if link else path
                assert page.exists(), (path, link)
                assert not anchor or anchor in anchors(page.read_text()), (path, link, anchor)
    # The runbook begins with a way to each of its sections.
    contents, _, sections = TEXT[ROOT / "docs" / "runbook.md"].partition("\n## ")
    own = re.findall(r"^## .+$", f"## {sections}", re.MULTILINE)
    assert anchors("\n".join(own)) == set(re.findall(r"\(#([^)]+)\)", contents))


ROOMS = (
    *("benchmarks", "containers", "dags", "job_container"),
    *("laptop", "local_cloud", "plugins", "terraform"),
)
CODE = [
    *(ROOT / name for name in ("Makefile", "docker-compose.yaml", "pyproject.toml")),
    *(
        path
        for room in ROOMS
        for path in (ROOT / room).rglob("*")
        if path.suffix in {".py", ".jinja", ".sh", ".tf", ".tfvars"}
        and ".terraform" not in path.parts
    ),
]


def test_each_page_and_heading_that_code_names_is_there():
    """In comments, docstrings and messages; a heading stands in quotes behind its page."""
    page = r"\b(docs/[\w/-]+(?:\.\w+)?|(?:\w+/)*README(?:\.md)?)\b"
    cited = rf"""{page}(?:,? \(?['"]([A-Z][^'"]+)['"])?"""
    named = [(path, *found) for path in CODE for found in re.findall(cited, path.read_text())]
    assert len(named) > 20
    for path, name, heading in named:
        folders = [folder for folder in path.parents if folder.is_relative_to(ROOT)]
        there = [one for folder in folders for one in folder.glob(f"{name}*")]
        assert there, f"{path} names {name}, which is gone"
        titles = {title for one in there if heading for title in headings(one.read_text())}
        assert heading in titles or not heading, f"{path}: {name} has no {heading!r}, but {titles}"


def headings(text):
    return re.findall(r"^#+ (.+)$", text, re.MULTILINE)


def anchors(text):
    """Of a page's headings, as GitHub makes them."""
    return {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings(text)}
