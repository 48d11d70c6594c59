"""Each setting stands in the documentation: what the Makefile, Compose and our programs read."""

import re

from batchmark.changes.alerts.settings import AlertSettings, SeriesMatch, SeriesRule
from laptop.containers.compose import external_variables
from tests.unit.repository.test_commands import MAKEFILE, ROOT, TEXT


def documented(name, *pages):
    wanted = re.compile(rf"`{name}[`= ]|\b{name}=|\"{name}\":")
    return any(wanted.search(text) for path, text in TEXT.items() if not pages or path in pages)


# What is read of the environment, by a name in quotes or a constant's; assignments are not.
READ = re.compile(r'os\.environ(?:\.\w+\(|\[)\s*("\w+"|\w++)(?!\] = )')


def variables_read(path):
    """Names of environment variables that a module reads, where they stand in it."""
    text = path.read_text()
    named = {
        name: f'"{value}"' for name, value in re.findall(r'^(\w+) = "(\w+)"', text, re.MULTILINE)
    }
    keys = {named.get(key, key) for key in READ.findall(text)}
    return {key.strip('"') for key in keys if key.startswith('"')}


def test_each_environment_variable_that_a_program_or_compose_reads():
    for program in ("job_container", "plugins"):
        read = {name for path in (ROOT / program).rglob("*.py") for name in variables_read(path)}
        assert len(read) >= 3
        assert sorted(name for name in read if not documented(name)) == []
    page = ROOT / "docs" / "containers.md"
    ours = {name for name in external_variables() if not name.startswith("AWS_")} | {"AWS_FOLDER"}
    assert sorted(name for name in ours if not documented(name, page)) == []


def test_each_variable_of_the_makefile():
    with_defaults = set(re.findall(r"^([A-Z_]+) \?=", MAKEFILE, re.MULTILINE))
    in_help = {
        name for line in re.findall(r"##(.*)", MAKEFILE) for name in re.findall(r"([A-Z_]+)=", line)
    }
    asked = set(re.findall(r"\$\((?:if|or|filter \w+,) ?\$\(([A-Z_]+)\)", MAKEFILE))
    unnamed = sorted(name for name in with_defaults | in_help | asked if not documented(name))
    assert unnamed == []


def test_each_key_of_the_alert_settings():
    page = (ROOT / "docs" / "runbook.md").read_text()
    keys = [key for one in (AlertSettings, SeriesRule, SeriesMatch) for key in one.model_fields]
    assert [name for name in keys if not re.search(rf"\b{name}\b", page)] == []
