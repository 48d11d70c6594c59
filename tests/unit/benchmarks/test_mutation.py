"""The mutation tool: which faults it makes, which tests it runs, and what it calls a survivor."""

import ast
import subprocess
import sys

import pytest

from benchmarks.mutation.mutants import mutants_of, mutated
from benchmarks.mutation.sample import MUTANTS_PER_FUNCTION, draw, room_of
from benchmarks.mutation.selection import MOST_SECONDS, Coverage
from tests.paths import ROOT

SOURCE = '''"""A module."""


class Shop:
    def price(self, count: int = 1, *, rebate: float | None = None) -> float:
        """A string constant is no place for a fault."""
        log.debug("count %d", 2 * count)
        if count < 0 and not rebate:
            raise ValueError("count")
        self.note(count)
        names = sorted(name for name in self.names if name)
        return max(count, 2) * 3 if names else -rebate
'''
CORE = "plugins/batchmark/core"
TREE = {
    f"{CORE}/half.py": "def half(number):\n    return number / 2\n",
    f"{CORE}/double.py": "def double(number):\n    return number * 2\n",
    "tests/conftest.py": "",
    "tests/unit/plugin/core/test_core.py": """
from batchmark.core.double import double
from batchmark.core.half import half

def test_half():
    assert half(6) == 3

def test_double():
    double(6)
""",
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["plugins"]\n',
}
# Nothing slow is imported, and the tree is another.
PROGRAM = """
import sys
from pathlib import Path
from benchmarks.mutation import __main__ as program, runs, sample

runs.SLOW_IMPORTS = ()
sample.EQUIVALENTS = Path("equivalents.toml")
program.ROOT = Path.cwd()
sys.exit(program.main(["--rooms", "core", "--workers", "1"]))
"""


def changes(source: str) -> list[str]:
    (found,) = mutants_of("shop.py", "shop", source).values()
    return [mutant.change for mutant in found]


def test_each_operator_makes_its_faults():
    assert sorted(changes(SOURCE)) == sorted(
        [
            *("1 → 2", "1 → 0"),
            "if count < 0 and (not rebate): → if True:",
            "if count < 0 and (not rebate): → if False:",
            "count < 0 and (not rebate) → count < 0 or not rebate",
            *("count < 0 → count <= 0", "count < 0 → count >= 0", "0 → 1", "0 → -1"),
            "not rebate → rebate",
            "raise ValueError('count') → pass",
            "self.note(count) → pass",
            "sorted((name for name in self.names if name)) → "
            "sorted((name for name in self.names if name), reverse=True)",
            " for name in self.names if name →  for name in self.names",
            "return max(count, 2) * 3 if names else -rebate → return None",
            "max(count, 2) * 3 if names else -rebate → max(count, 2) * 3",
            "max(count, 2) * 3 if names else -rebate → -rebate",
            "max(count, 2) * 3 → max(count, 2) / 3",
            "max(count, 2) → min(count, 2)",
            *("2 → 3", "2 → 1", "3 → 4", "3 → 2"),
            "-rebate → rebate",
        ]
    )


def test_a_mutant_changes_one_place_and_keeps_its_key_when_its_function_moves():
    (before,) = mutants_of("shop.py", "shop", SOURCE).values()
    (after,) = mutants_of("shop.py", "shop", f"import math\n\n\n{SOURCE}").values()
    assert [mutant.key for mutant in before] == [mutant.key for mutant in after]
    assert before[0].line + 3 == after[0].line
    (boundary,) = [mutant for mutant in before if mutant.change == "count < 0 → count <= 0"]
    assert boundary.key == (
        "shop.Shop.price",
        "count < 0 → count <= 0",
        "if count < 0 and not rebate:",
    )
    plain = ast.unparse(ast.parse(SOURCE)).splitlines()
    assert [line for line in mutated(SOURCE, boundary).splitlines() if line not in plain] == [
        "        if count <= 0 and (not rebate):"
    ]


def test_the_sample_is_fixed_and_takes_a_few_mutants_of_each_function(tmp_path):
    folder = tmp_path / CORE
    folder.mkdir(parents=True)
    for name in "abcde":
        text = f"def {name}(x):\n    return x + 1 + 2 + 3 + 4 + 5\n"
        (folder / f"{name}.py").write_text(text)
    drawn = draw(tmp_path, 2 * MUTANTS_PER_FUNCTION)["core"]
    assert len(drawn) == 2 * MUTANTS_PER_FUNCTION
    assert len({mutant.function for mutant in drawn}) == 2
    (folder / "a.py").write_text("\n\n" + (folder / "a.py").read_text())
    assert [mutant.key for mutant in draw(tmp_path, 2 * MUTANTS_PER_FUNCTION)["core"]] == [
        mutant.key for mutant in drawn
    ]


def test_a_module_belongs_to_its_innermost_room():
    assert room_of("job_container/batchmark_job/measuring/rows.py") == "job/measuring"
    assert room_of("job_container/batchmark_job/job.py") == "job"
    assert room_of("plugins/batchmark/changes/alerts/merging.py") == "changes"


def recorded(tests, *failed):
    noted = {test: {"seconds": own[0], "reached": own[1:]} for test, own in tests.items()}
    return {"tests": noted, "failed": list(failed)}


def test_tests_of_the_room_come_first_and_their_files_are_run_as_a_whole():
    coverage = Coverage(
        [
            recorded({"far/a.py::a": (1, "f"), "far/a.py::b": (1,)}),
            recorded({"near/b.py::a": (2,), "near/b.py::b": (3, "f")}),
            recorded({"near/c.py::a": (MOST_SECONDS, "f", "g"), "near/c.py::b": (1,)}),
            recorded({"near/d.py::a": (1, "f", "h")}, "near/d.py::a"),
        ]
    )
    near = ["near/b.py::b", "near/b.py::a", "near/c.py::b"]
    assert coverage.stages("f", "near") == [near, ["far/a.py::a"]]
    assert coverage.stages("g", "far") == [["near/c.py::a"]]
    assert coverage.stages("g", "near") == [["near/c.py::a"]]
    assert coverage.stages("h", "near") == []
    assert not coverage.is_reached("h")


@pytest.mark.parametrize(("explained", "code"), [(False, 1), (True, 0)])
def test_a_killed_mutant_counts_and_a_survivor_is_listed(tmp_path, explained, code):
    for name, text in TREE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    entry = (
        '[[equivalent]]\nfunction = "batchmark.core.double.double"\nchange = "{}"\n'
        'text = "return number * 2"\nwhy = "nobody looks"\n'
    )
    listed = ["number * 2 → number / 2", "2 → 3", "2 → 1", "return number * 2 → return None"]
    text = "".join(map(entry.format, listed)) if explained else "equivalent = []"
    (tmp_path / "equivalents.toml").write_text(text)
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = ended.stdout.splitlines()
    assert ended.returncode == code, ended.stdout + ended.stderr
    place = f"{CORE}/double.py:2 batchmark.core.double.double: "
    assert sorted(line.split("  (")[0] for line in lines if line.startswith(CORE)) == sorted(
        place + change for change in listed
    )
    shares = ("50.0%", "4", "100.0%") if explained else ("50.0%", "0", "50.0%")
    assert [line.split() for line in lines if line.startswith("core")] == [
        ["core", "8", "4", *shares]
    ]
    assert (tmp_path / CORE / "double.py").read_text() == TREE[f"{CORE}/double.py"]
