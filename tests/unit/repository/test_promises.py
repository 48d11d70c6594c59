"""The tables of what is promised name tests that are there, and that run."""

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


def test_each_promise_of_security_names_its_tests():
    rows = re.findall(r"^\| (.+) \| (.*) \|$", (ROOT / "SECURITY.md").read_text(), re.MULTILINE)
    promises = {promise: tests for promise, tests in rows[2:] if tests}
    assert len(promises) >= 15
    for promise, tests in promises.items():
        files = re.findall(r"`((?:tests|terraform)/[^`]+\.(?:py|tftest\.hcl))`", tests)
        assert files, promise
        assert all((ROOT / file).is_file() for file in files), promise
