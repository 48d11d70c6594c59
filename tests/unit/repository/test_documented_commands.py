"""Each command of the docs and each promise has a test, or a reason says why none."""

import ast
import re
import tomllib
from pathlib import Path

from tests.documented import commands, documented
from tests.paths import ROOT

REGISTER = tomllib.loads(Path(__file__).with_name("commands.toml").read_text())
RUN, NOT_RUN = REGISTER["run"], REGISTER["not_run"]
BEGINNINGS = [start for part in (RUN, NOT_RUN) for starts in part.values() for start in starts]


def beginning_of(text):
    """The longest that is registered, up to the end of a word; none if there is none."""
    found = [start for start in BEGINNINGS if text.startswith(start)]
    ended = [start for start in found if not re.match(r"\w[\w-]", text[len(start) - 1 :])]
    return max(ended, key=len, default=None)


BEGINNING = {command.text: beginning_of(command.text) for command in commands()}


def test_the_register_has_the_beginning_of_each_command_once_and_no_other():
    assert [text for text, start in BEGINNING.items() if start is None] == []
    assert sorted(set(BEGINNINGS)) == sorted(BEGINNINGS)
    assert set(BEGINNINGS) - set(BEGINNING.values()) == set()


def test_each_test_of_the_register_exists_and_names_its_commands():
    blocks = {BEGINNING[command.text]: BEGINNING[command.first] for command in commands()}
    for test, starts in RUN.items():
        path, _, name = test.partition("::")
        text = (ROOT / path).read_text()
        assert f"def {name}(" in text or not name, test
        for start in starts:
            assert start.rstrip("=") in text or blocks[start] in text, (test, start)


def looked_up():
    """What tests ask the pages for, by their calls with a text that is not made of parts."""
    texts = (path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    for text in (text for text in texts if re.search("the_(command|block)", text)):
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(ast.Name("the_command" | "the_block"), [ast.Constant(str(start))]):
                    yield start


def test_the_pages_have_what_tests_that_run_for_minutes_look_up():
    starts = set(looked_up())
    assert len(starts) > 20
    for start in sorted(starts):
        documented(start)


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
