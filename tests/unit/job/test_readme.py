"""The job's README names what there is."""

from pathlib import Path

import pytest

import batchmark_job
from batchmark_job.suites import NAMES

PACKAGE = Path(batchmark_job.__file__).parent
README = (PACKAGE.parent / "README.md").read_text()
MODULES = sorted(path.name for path in PACKAGE.glob("[!_]*.py"))
ROOMS = {path.parent.relative_to(PACKAGE) for path in PACKAGE.glob("*/**/[!_]*.py")}


@pytest.mark.parametrize("suite", NAMES)
def test_suite_is_named(suite):
    (option,) = [line for line in README.splitlines() if line.startswith("| `--suite NAME`")]
    assert f"`{suite}`" in option


@pytest.mark.parametrize("place", [*MODULES, *sorted(f"{room}/" for room in ROOMS)])
def test_place_is_named(place):
    table = README.partition("## Where things are")[2]
    assert f"\n| `{place}` |" in table
