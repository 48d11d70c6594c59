"""The job's README names what there is."""

from pathlib import Path

import pytest

import batchmark_job
from batchmark_job.suites import NAMES

PACKAGE = Path(batchmark_job.__file__).parent
README = (PACKAGE.parent / "README.md").read_text()
MODULES = sorted(path.name for path in PACKAGE.glob("[!_]*.py"))


@pytest.mark.parametrize("suite", NAMES)
def test_suite_is_named(suite: str) -> None:
    (option,) = [line for line in README.splitlines() if line.startswith("| `--suite NAME`")]
    assert f"`{suite}`" in option


@pytest.mark.parametrize("module", MODULES)
def test_module_is_named(module: str) -> None:
    table = README.partition("## Where things are")[2]
    assert f"`{module}`" in table or f"`batchmark_job/{module}`" in table
