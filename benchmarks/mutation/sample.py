"""The fixed sample of mutants: drawn by hashes of names, so that it moves only with the code."""

from __future__ import annotations

import hashlib
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from benchmarks.mutation.mutants import Key, Mutant, mutants_of

SEED = "batchmark 1"
MUTANTS_PER_FUNCTION = 4
EQUIVALENTS = Path(__file__).with_name("equivalents.toml")


class Room(NamedTuple):
    """A folder of the product, without the rooms inside it, and the folder of its tests."""

    source: str
    tests: str


ROOMS = {
    "core": Room("plugins/batchmark/core", "tests/unit/plugin/core"),
    "aws": Room("plugins/batchmark/aws", "tests/unit/plugin/aws"),
    "analysis": Room("plugins/batchmark/analysis", "tests/unit/plugin/analysis"),
    "runs": Room("plugins/batchmark/runs", "tests/unit/plugin/runs"),
    "checks": Room("plugins/batchmark/checks", "tests/unit/plugin/checks"),
    "changes": Room("plugins/batchmark/changes", "tests/unit/plugin/changes"),
    "history": Room("plugins/batchmark/history", "tests/unit/plugin/history"),
    "report": Room("plugins/batchmark/report", "tests/unit/plugin/report"),
    "orchestration": Room("plugins/batchmark/orchestration", "tests/unit/plugin/orchestration"),
    "job": Room("job_container/batchmark_job", "tests/unit/job"),
    "job/machine": Room("job_container/batchmark_job/machine", "tests/unit/job/machine"),
    "job/measuring": Room("job_container/batchmark_job/measuring", "tests/unit/job/measuring"),
    "job/workloads": Room("job_container/batchmark_job/workloads", "tests/unit/job/workloads"),
    "local_cloud": Room("local_cloud", "tests/unit/local_cloud"),
    "laptop": Room("laptop", "tests/unit/laptop"),
}
# Triton compiles these for GPUs; without one they never run.
LEFT_OUT = ("job_container/batchmark_job/workloads/support/triton_kernels.py",)


def draw(root: Path, number: int) -> dict[str, list[Mutant]]:
    """About `number` mutants of each room: function by function, until there are enough."""
    sample: dict[str, list[Mutant]] = {}
    for name, functions in _functions(root).items():
        chosen = sample[name] = []
        for function in sorted(functions, key=_rank):
            if len(chosen) < number:
                mutants = sorted(functions[function], key=lambda mutant: _rank(*mutant.key))
                chosen += mutants[:MUTANTS_PER_FUNCTION]
    return sample


def room_of(path: str) -> str:
    """The innermost room that holds a path."""
    rooms = [name for name, room in ROOMS.items() if path.startswith(f"{room.source}/")]
    return max(rooms, key=lambda name: len(ROOMS[name].source))


def equivalents() -> dict[Key, str]:
    """Why no test can find a mutant, by its key."""
    listed = tomllib.loads(EQUIVALENTS.read_text())["equivalent"]
    return {(each["function"], each["change"], each["text"]): each["why"] for each in listed}


def _functions(root: Path) -> dict[str, dict[str, list[Mutant]]]:
    """All mutants, by room and function."""
    found: dict[str, dict[str, list[Mutant]]] = defaultdict(dict)
    files = {file for room in ROOMS.values() for file in (root / room.source).rglob("*.py")}
    for file in sorted(files):
        path = file.relative_to(root).as_posix()
        if path not in LEFT_OUT:
            found[room_of(path)] |= mutants_of(path, _module(path), file.read_text())
    return {name: found[name] for name in ROOMS if name in found}


def _module(path: str) -> str:
    dotted = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return dotted.removeprefix("plugins.").removeprefix("job_container.")


def _rank(*words: str) -> bytes:
    return hashlib.sha256("\0".join((SEED, *words)).encode()).digest()
