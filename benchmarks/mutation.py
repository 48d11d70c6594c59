"""Introduces small faults into a fixed sample of functions and counts those that the tests find.

cosmic-ray makes each fault (a "mutant") in a copy of the tree. The unit tests of the folder with
the fault (its "room") run first, then the other tests of the same part, such as the plugin. For the
local cloud, the end-to-end tests run too, because its unit tests rarely start the server. Prints a
score for each room, and every surviving mutant. Exits with 1 if the overall score is below 90 %,
not counting the mutants that equivalent_mutants.toml explains. Takes about 25 minutes on 2 cores.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import NamedTuple

from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.ast.ast_query import ASTQuery
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.plugins import get_operator, operator_names
from cosmic_ray.testing import run_tests
from cosmic_ray.work_item import MutationSpec, TestOutcome

ROOT = Path(__file__).resolve().parents[1]
EQUIVALENTS = Path(__file__).with_name("equivalent_mutants.toml")
LEAST_SCORE = 0.9  # judgment: each room's sample is small, so a few survivors say little
MUTANTS_PER_FUNCTION = 2  # so that a long function doesn't use up its room's sample
MOST_SECONDS = 600.0  # limit for tests whose own time is unknown
PART_DEPTH = 3  # folders in the path of a part's tests
PATIENCE = 4.0  # times the room's own seconds; a mutant that takes longer counts as found
JOB = "job_container/batchmark_job"
ROOMS = {  # the folder of the code, and the folder of its tests
    **{
        f"plugins/batchmark/{room}": f"tests/unit/plugin/{room}"
        for room in (
            *("core", "aws", "analysis", "runs", "checks", "changes", "history", "report"),
            "orchestration",
        )
    },
    **{f"{JOB}/{room}": f"tests/unit/job/{room}" for room in ("machine", "measuring", "workloads")},
    JOB: "tests/unit/job",
    "local_cloud": "tests/unit/local_cloud",
    "laptop": "tests/unit/laptop",
}
# Runs the server as its own process with a client: a minute or two.
ALSO = {"local_cloud": "tests/e2e/local_cloud"}
# Triton compiles these for GPUs; without one they never run.
LEFT_OUT = f"{JOB}/workloads/support/triton_kernels.py"
# An operator becomes its opposite, or its neighbour at the boundary. cosmic-ray also replaces each
# with every other, but any test finds most of those, such as "<<" for "-".
CHANGES = (
    *("Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt", "Eq_NotEq"),
    *("NotEq_Eq", "Is_IsNot", "IsNot_Is", "Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "Mod_Mul"),
    *("FloorDiv_Mul", "Pow_Mul", "Delete_Not", "USub_UAdd", "AddNot", "TrueWithFalse"),
    *("FalseWithTrue", "AndWithOr", "OrWithAnd", "BreakWithContinue", "ContinueWithBreak"),
    *("NumberReplacer", "ExceptionReplacer", "RemoveDecorator", "ZeroIterationForLoop"),
)
ARITHMETIC = {"arith_expr", "term", "power", "factor"}  # parso's node types


class Mutant(NamedTuple):
    """One fault; `text` holds the changed line, cosmic-ray's operator and the column."""

    room: str
    path: str
    function: str
    text: str
    spec: MutationSpec

    @property
    def key(self) -> str:
        """An identifier that stays the same if the line moves within the file."""
        return f"{self.path} {self.function}: {self.text}"

    @property
    def rank(self) -> bytes:
        return hashlib.sha256(self.key.encode()).digest()


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=list(ROOMS), metavar="FOLDER")
    parser.add_argument(
        "--mutants", type=int, default=10, help="number of mutants per folder (default: 10)"
    )
    parser.add_argument(
        "--workers", type=int, default=2, help="number of worker processes (default: 2)"
    )
    arguments = parser.parse_args(words)
    began = time.monotonic()
    sample = [mutant for room in arguments.rooms for mutant in drawn(room, arguments.mutants)]
    print(f"{len(sample)} mutants in {len({each.key.split(':')[0] for each in sample})} functions")
    survivors = set()
    with tempfile.TemporaryDirectory(prefix="batchmark-mutation-") as folder:
        copies: SimpleQueue[str] = multiprocessing.SimpleQueue()
        for number in range(arguments.workers):
            copies.put(copied(f"{folder}/{number}"))
        with multiprocessing.Pool(arguments.workers, enter, (copies,)) as pool:
            limits = dict(pool.imap_unordered(limit, arguments.rooms))
            print(f"{time.monotonic() - began:.0f} s to run the tests without a mutant", flush=True)
            tasks = [(mutant, limits[mutant.room]) for mutant in sample]
            for mutant, found in pool.imap_unordered(test, tasks):
                if not found:
                    survivors.add(mutant.key)
                    print(f"survived: {mutant.key}", flush=True)
    passed = report(sample, survivors)
    print(f"{time.monotonic() - began:.0f} s in total")
    return int(not passed)


def drawn(room: str, number: int) -> list[Mutant]:
    """Choose up to `number` mutants in a room by their hashes, at most two per function."""
    by_function = defaultdict(list)
    for mutant in sorted(mutants_of(room), key=lambda each: each.rank):
        by_function[mutant.path, mutant.function].append(mutant)
    chosen = [mutant for some in by_function.values() for mutant in some[:MUTANTS_PER_FUNCTION]]
    return chosen[:number]


def mutants_of(room: str) -> Iterator[Mutant]:
    inner = [other for other in ROOMS if other.startswith(f"{room}/")]
    for file in sorted((ROOT / room).rglob("*.py")):
        path = file.relative_to(ROOT).as_posix()
        if path != LEFT_OUT and not any(path.startswith(f"{other}/") for other in inner):
            yield from mutants_in(file, path, room)


def mutants_in(file: Path, path: str, room: str) -> Iterator[Mutant]:
    lines = file.read_text().splitlines()
    nodes = list(ast_nodes(get_ast_from_path(file)))
    for name in operator_names():
        if not name.endswith(CHANGES):
            continue
        operator = get_operator(name)()
        places = ((node, *at) for node in nodes for at in operator.mutation_positions(node))
        previous = None
        for occurrence, (node, start, end) in enumerate(places):
            if "Binary" in name and node.parent.type not in ARITHMETIC:
                continue  # the `*` of a call or a signature
            if function := ASTQuery(node).get_definition_name():
                again = "again " if start == previous else ""
                previous = start
                change = f"{name.partition('/')[2]} {again}at {start[1]}"
                text = f"{lines[start[0] - 1].strip()} [{change}]"
                spec = MutationSpec(path, name, occurrence, start, end)
                yield Mutant(room, path, function, text, spec)


def copied(folder: str) -> str:
    """Copy the tree to `folder`, where files can be changed, and return the folder."""
    without = shutil.ignore_patterns(".git", ".venv", "build", ".*_cache", ".terraform")
    shutil.copytree(ROOT, folder, ignore=without, symlinks=True)
    Path(folder, ".venv").symlink_to(sys.prefix)
    return folder


def enter(copies: SimpleQueue[str]) -> None:
    """Take a copy of the tree, and make it this process's working directory."""
    os.chdir(copies.get())
    os.environ["PYTHONPATH"] = os.pathsep.join((".", "plugins", "job_container"))


def tests_of(room: str) -> list[Path]:
    inner = [Path(folder) for folder in ROOMS.values() if folder.startswith(f"{ROOMS[room]}/")]
    files = sorted(Path(ROOMS[room]).rglob("test_*.py"))
    return [file for file in files if not any(map(file.is_relative_to, inner))]


def others_of(room: str) -> list[Path]:
    """List the other tests of the room's part (such as the plugin), and its end-to-end tests."""
    part = Path(*Path(ROOMS[room]).parts[:PART_DEPTH])
    others = {*part.rglob("test_*.py")} - {*tests_of(room)}
    return sorted(others) + sorted(Path(ALSO[room]).glob("test_*.py") if room in ALSO else ())


def command(tests: Sequence[Path]) -> str:
    options = "-q -x -p no:cacheprovider -m 'not monte_carlo'"
    return f"{sys.executable} -m pytest {options} {' '.join(map(str, tests))}"


def limit(room: str) -> tuple[str, float]:
    """Return the room, and how many seconds its tests may take with a mutant.

    Raises:
        RuntimeError: the tests fail without a mutant.
    """
    began = time.monotonic()
    outcome, output = run_tests(command(tests_of(room)), MOST_SECONDS)
    if outcome != TestOutcome.SURVIVED:
        raise RuntimeError(f"the tests for {room} fail even without a mutant:\n{output}")
    return room, PATIENCE * (time.monotonic() - began)


def test(task: tuple[Mutant, float]) -> tuple[Mutant, bool]:
    """Return the mutant, and whether a test of its room, or one of `others_of`, finds it."""
    mutant, seconds = task
    home = tests_of(mutant.room)
    home.sort(key=lambda file: not file.stem.startswith(f"test_{Path(mutant.path).stem}"))
    found = is_found(mutant, home, seconds)
    if not found and (others := others_of(mutant.room)):
        found = is_found(mutant, others, MOST_SECONDS)
    return mutant, found


def is_found(mutant: Mutant, tests: Sequence[Path], seconds: float) -> bool:
    result = mutate_and_test([mutant.spec], command(tests), seconds)
    if result.test_outcome == TestOutcome.INCOMPETENT:
        raise RuntimeError(f"{mutant.key}: {result.output}")
    return bool(result.test_outcome == TestOutcome.KILLED)


def report(sample: Sequence[Mutant], survivors: Collection[str]) -> bool:
    """Print the scores; return whether the overall score is high enough."""
    explained = tomllib.loads(EQUIVALENTS.read_text())
    for key in explained.keys() & ({mutant.key for mutant in sample} - set(survivors)):
        print(f"listed as equivalent, but caught by a test: {key}")
    print(f"{'room':<36}{'mutants':>8}{'survived':>9}{'explained':>10}{'score':>8}")
    for room in [*dict.fromkeys(mutant.room for mutant in sample), ""]:
        keys = [mutant.key for mutant in sample if room in {mutant.room, ""}]
        left = [key for key in keys if key in survivors]
        known = sum(key in explained for key in left)
        score = 1 - (len(left) - known) / max(1, len(keys) - known)
        print(f"{room or 'all':<36}{len(keys):>8}{len(left):>9}{known:>10}{score:>8.1%}")
    return score >= LEAST_SCORE


if __name__ == "__main__":
    sys.exit(main())
