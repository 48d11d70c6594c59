"""The job's README names each folder of its code."""

from pathlib import Path

import pytest

import batchmark_job

PACKAGE = Path(batchmark_job.__file__).parent
README = (PACKAGE.parent / "README.md").read_text()
ROOMS = {path.parent.relative_to(PACKAGE) for path in PACKAGE.glob("*/**/[!_]*.py")}


@pytest.mark.parametrize("room", sorted(f"{room}/" for room in ROOMS))
def test_room_is_named(room):
    table = README.partition("## Where things are")[2]
    assert f"\n| `{room}` |" in table
