"""Measures how many of the job's CUDA-only lines its unit tests run, on a simulated or real GPU.

CUDA-only lines are all lines of the modules in WHOLE; elsewhere, they are those in branches that
run only on CUDA, and in classes and functions meant only for CUDA. Triton kernels are excluded,
because the tests interpret or compile them instead of running them as Python. Exits with 1 if a
test fails or the share is below 95 %.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from coverage import Coverage

ROOT = Path(__file__).resolve().parents[1]
JOB = ROOT / "job_container" / "batchmark_job"
LEAST_SHARE = 0.95  # judgment: it was 100 % at first; a few lines may need a real GPU
WHOLE = (
    "machine/cards.py",
    "machine/cuda.py",
    "machine/nvml.py",
    "measuring/samples/device_times.py",
    "workloads/support/cuda_graph.py",
    "workloads/support/triton_filters.py",
)
LEFT_OUT = ("workloads/support/triton_kernels.py",)
NAMES = ("cuda", "gpu", "nvml")  # of functions


class Covered(NamedTuple):
    """A module's CUDA-only lines, and those of them that no test ran."""

    module: str
    lines: frozenset[int]
    missed: frozenset[int]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "coverage"
        print("cuda-coverage: running the job's unit tests (about 2 minutes)", flush=True)
        tests = subprocess.run(_tests(data), cwd=ROOT, env=_environment(), check=False)
        if tests.returncode:
            print("cuda-coverage: the tests failed; see their output above", file=sys.stderr)
            return 1
        found = [module for module in measured(data) if module.lines]
    for module in found:
        missed = ", ".join(map(str, sorted(module.missed)))
        run = len(module.lines) - len(module.missed)
        print(f"{module.module:44} {run:4} of {len(module.lines):4}  {missed}".rstrip())
    lines = sum(len(module.lines) for module in found)
    share = 1 - sum(len(module.missed) for module in found) / lines
    print(f"the tests cover {share:.1%} of {lines} CUDA-only lines (minimum: {LEAST_SHARE:.0%})")
    return 0 if share >= LEAST_SHARE else 1


def _tests(data: Path) -> list[str]:
    run = [sys.executable, "-m", "coverage", "run", f"--data-file={data}", f"--source={JOB}"]
    return [*run, "-m", "pytest", "-q", "-m", "not monte_carlo", "tests/unit/job"]


def _environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1"}


def measured(data: Path) -> Iterator[Covered]:
    coverage = Coverage(data_file=str(data), config_file=False)
    coverage.load()
    for path in sorted(JOB.rglob("*.py")):
        module = path.relative_to(JOB).as_posix()
        if module in LEFT_OUT:
            continue
        _, statements, _, missing, _ = coverage.analysis2(str(path))
        lines = frozenset(statements)
        if module not in WHOLE:
            lines &= lines_for_cuda(path.read_text())
        yield Covered(module, lines, lines & frozenset(missing))


def lines_for_cuda(source: str) -> frozenset[int]:
    """Return the line numbers of branches, classes and functions that are only for CUDA."""
    found: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.If(test=test, body=body, orelse=orelse):
                for statement in _branch(test, body, orelse):
                    found |= _lines(statement)
            case ast.ClassDef() if _is_for_cuda(node):
                found |= _lines(node)
            case ast.FunctionDef(name=name) if any(word in name for word in NAMES):
                found |= _lines(node)
    return frozenset(found)


def _branch(test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements of an `if` that run only on CUDA, from its body or its `else`."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return body if any(_branch(value, body, []) for value in test.values) else []
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return []
    sides = {_named(side) for side in (test.left, *test.comparators)}
    equal, unequal = (isinstance(test.ops[0], kind) for kind in (ast.Eq, ast.NotEq))
    if ("cuda" in sides and equal) or ("cpu" in sides and unequal):
        return body
    if ("cuda" in sides and unequal) or ("cpu" in sides and equal):
        return orelse
    return body if isinstance(test.ops[0], ast.Is) and "cuda" in sides else []


def _named(side: ast.expr) -> str | None:
    if isinstance(side, ast.Constant) and isinstance(side.value, str):
        return side.value
    return side.attr.lower() if isinstance(side, ast.Attribute) else None


def _is_for_cuda(node: ast.ClassDef) -> bool:
    return any(
        isinstance(statement, ast.Assign)
        and getattr(statement.targets[0], "id", None) == "devices"
        and ast.unparse(statement.value) == "('cuda',)"
        for statement in node.body
    )


def _lines(node: ast.AST) -> set[int]:
    first = getattr(node, "lineno", 0)
    return set(range(first, (getattr(node, "end_lineno", None) or first) + 1))


if __name__ == "__main__":
    sys.exit(main())
