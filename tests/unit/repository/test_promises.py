"""The table of what `make test` promises names tests that it runs."""

import re

from tests.paths import ROOT

TESTS = re.findall(r"\| `(tests/[^`]+)` \|$", (ROOT / "tests/README.md").read_text(), re.MULTILINE)
LEFT_OUT = r"^@pytest\.mark\.(monte_carlo|full_matrix|thirty_runs|airflow_ui)\n(@.*\n)*"


def test_each_promise_has_a_test_that_make_test_runs():
    makefile = (ROOT / "Makefile").read_text()
    one_run = re.search(r"^ONE_RUN := (.*)$", makefile, re.MULTILINE)[1].split()
    assert len(TESTS) >= 20
    for test in TESTS:
        path, _, name = test.partition("::")
        assert path in one_run or path.startswith(("tests/unit/", "tests/terraform/")), test
        text = (ROOT / path).read_text()
        assert f"\ndef {name}" in text, test
        assert not re.search(rf"{LEFT_OUT}def {name}\(", text, re.MULTILINE), test
