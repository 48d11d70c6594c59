"""What tests/conftest.py sets before any test begins."""

import os
import runpy
from unittest.mock import patch

import botocore.loaders

from tests.paths import ROOT


def test_a_pytest_that_tests_start_does_not_inherit_the_options_of_theirs(monkeypatch):
    """Such as `--durations=9`, whose lines would stand among those that it is asked for."""
    monkeypatch.setattr(botocore.loaders, "create_loader", dict)  # it sets that, too
    given = {"PYTEST_ADDOPTS": "--durations=9", "PYTEST_XDIST_WORKER": "gw0"}
    with patch.dict(os.environ, given):
        runpy.run_path(str(ROOT / "tests" / "conftest.py"))
        assert "PYTEST_ADDOPTS" not in os.environ
