"""The table of what `make test` promises names tests that it runs."""

import ast
import re

from tests.paths import ROOT

TESTS = re.findall(r"\| `(tests/[^`]+)` \|$", (ROOT / "tests/README.md").read_text(), re.MULTILINE)


def test_each_promise_has_a_test_that_make_test_runs():
    makefile = (ROOT / "Makefile").read_text()
    one_run = re.search(r"^ONE_RUN := (.*)$", makefile, re.MULTILINE)[1].split()
    assert len(TESTS) >= 20
    for test in TESTS:
        path, _, name = test.partition("::")
        assert path in one_run or path.startswith(("tests/unit/", "tests/terraform/")), test
        (function,) = [
            each
            for each in ast.parse((ROOT / path).read_text()).body
            if isinstance(each, ast.FunctionDef) and each.name == name
        ] or [None if name else path]
        assert function, test
        left_out = [ast.unparse(mark) for mark in getattr(function, "decorator_list", ())]
        assert not re.search("monte_carlo|full_matrix|thirty_runs|airflow_ui", str(left_out)), test
