"""The mutation tool: its sample stays as it is, and it tells what no test finds."""

import pytest

from benchmarks import mutation

HALF = "def half(number):\n    return number / 2\n"
TREE = {
    "shop/half.py": HALF,
    "shop/double.py": "def double(number):\n    return number * 2\n",
    "tests/test_half.py": """
import sys
sys.path.insert(0, "shop")
from double import double
from half import half

def test_half():
    assert half(6) == 3

def test_double():
    double(6)
""",
}


@pytest.fixture
def shop(tmp_path, monkeypatch):
    for path, text in TREE.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take longer than the tests
    monkeypatch.setattr(mutation, "ROOT", tmp_path)
    monkeypatch.setattr(mutation, "ROOMS", {"shop": "tests"})
    return tmp_path


def test_a_mutant_keeps_its_name_wherever_its_line_stands(shop):
    before = {mutant.key for mutant in mutation.mutants_of("shop")}
    (shop / "shop/half.py").write_text(f"import os\n\n\n{HALF}")

    assert {mutant.key for mutant in mutation.mutants_of("shop")} == before
    assert len(before) == 6  # of each function an operator, and a number both ways


def test_only_what_no_test_finds_survives_and_tests_that_fail_without_a_mutant_end_it(shop, capsys):
    assert mutation.main(["--rooms", "shop", "--workers", "1"]) == 1

    survivors = [line for line in capsys.readouterr().out.splitlines() if "survived:" in line]
    assert len(survivors) == mutation.MUTANTS_PER_FUNCTION
    assert all("shop/double.py double: return number * 2" in line for line in survivors)
    assert (shop / "shop/half.py").read_text() == HALF
    (shop / "tests/test_half.py").write_text("assert False")

    with pytest.raises(RuntimeError, match="fail even without a mutant"):
        mutation.main(["--rooms", "shop", "--workers", "1"])
