"""The stack for comparing foreign jobs on a local cloud: apply, re-plan clean, destroy."""

import pytest

from laptop.stack import STACKS
from tests.e2e.deployer import refused
from tests.e2e.optional_stacks import life_of

NAME = "job_comparison"


@pytest.mark.timeout(600)
def test_it_applies_replans_clean_and_destroys(tmp_path):
    given = {"var_file": STACKS / NAME / "local.tfvars"}
    with life_of(NAME, tmp_path, lambda _: given, lambda *_: {}) as life:
        assert life["changes"] == {}
        assert life["after"] == life["before"]
        assert refused(life["calls"]) == set()
