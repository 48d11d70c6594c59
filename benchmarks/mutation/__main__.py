"""Puts small faults into a fixed sample of functions and counts those that the unit tests find.

Prints a score for each room of the product, and every mutant that survived. Exits with 1 if a room
scores below 90 % without the mutants that equivalents.toml explains. About 15 minutes on 2 cores.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import multiprocessing.pool
import sys
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.mutation import runs
from benchmarks.mutation.mutants import Key, Mutant
from benchmarks.mutation.sample import ROOMS, draw, equivalents, room_of
from benchmarks.mutation.selection import Coverage

ROOT = Path(__file__).resolve().parents[2]
LEAST_SCORE = 0.9
FILE_SECONDS = 600.0  # limit for a file of tests without a mutant
PATIENCE = 5  # times the tests' own seconds; a mutant that takes longer is found
START_SECONDS = 30.0  # allowed for imports


class Score(NamedTuple):
    """How many of a room's mutants there are, survived, and of these are explained."""

    room: str
    mutants: int
    survivors: int
    explained: int

    @property
    def of_all(self) -> float:
        return 1 - self.survivors / self.mutants

    @property
    def of_findable(self) -> float:
        missed = self.survivors - self.explained
        return 1 - missed / max(1, self.mutants - self.explained)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=list(ROOMS))
    parser.add_argument("--mutants", type=int, default=30, help="of each room (default: 30)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: 2)")
    arguments = parser.parse_args(words)
    began = time.monotonic()
    drawn = draw(ROOT, arguments.mutants)
    mutants = [mutant for room in arguments.rooms for mutant in drawn[room]]
    print(f"{len(mutants)} mutants of {len({each.function for each in mutants})} functions")
    _kept = runs.warm_up(ROOT)
    known = equivalents()
    with tempfile.TemporaryDirectory(prefix="batchmark-mutation-") as folder:
        copies = [runs.Copy(ROOT, Path(folder, str(each))) for each in range(arguments.workers)]
        recorded = record_all(copies, [mutant for room in drawn.values() for mutant in room])
        if failed := [test for file in recorded for test in file["failed"]]:
            print("left out, because they fail without a mutant:", *failed, sep="\n  ")
        print(f"{time.monotonic() - began:.0f} s for all tests without a mutant", flush=True)
        survivors = surviving(copies, mutants, Coverage(recorded), known)
    report(mutants, survivors, known)
    print(f"{time.monotonic() - began:.0f} s in all")
    return int(any(each.of_findable < LEAST_SCORE for each in scores(mutants, survivors, known)))


def record_all(copies: Sequence[runs.Copy], mutants: Sequence[Mutant]) -> list[dict[str, Any]]:
    """Run all unit tests, file by file, with the mutants' functions noting their calls.

    What passed is kept in build/mutation/ until the file, the product or what tests share changes.
    """
    kept = ROOT / "build" / "mutation"
    kept.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        for copy in copies:
            stack.enter_context(copy.instrumented(mutants))
        tasks = [(file, kept / f"{digest}.json") for file, digest in copies[0].tests().items()]
        with _pool(copies) as pool:
            recorded = pool.map(_record, tasks, chunksize=1)
    for path in set(kept.iterdir()) - {path for _, path in tasks}:
        path.unlink()
    return recorded


def surviving(
    copies: Sequence[runs.Copy],
    mutants: Sequence[Mutant],
    coverage: Coverage,
    known: Mapping[Key, str],
) -> set[Mutant]:
    """The mutants with which all tests pass; print each when that is known."""
    tasks = []
    for mutant in mutants:
        stages = coverage.stages(mutant.function, ROOMS[room_of(mutant.path)].tests)
        seconds = sum(coverage.seconds[test] for tests in stages for test in tests)
        tasks.append((mutant, stages, seconds))
    survivors = set()
    with _pool(copies) as pool:
        for mutant, found in pool.imap_unordered(_test, tasks):
            if not found:
                survivors.add(mutant)
                note = "" if coverage.is_reached(mutant.function) else "  (no unit test reaches it)"
                if mutant.key in known:
                    note = f"  (equivalent: {known[mutant.key]})"
                print(f"{mutant.path}:{mutant.line} {mutant.function}: {mutant.change}{note}")
                sys.stdout.flush()
    return survivors


def _test(task: tuple[Mutant, list[list[str]], float]) -> tuple[Mutant, bool]:
    """Whether a test finds the mutant, in a worker process."""
    mutant, stages, seconds = task
    limit = START_SECONDS + PATIENCE * seconds
    with _worker.copy.with_mutant(mutant):
        return mutant, any(not runs.passes(_worker.copy, tests, limit) for tests in stages)


def _record(task: tuple[str, Path]) -> dict[str, Any]:
    """Record a file of tests, in a worker process; once more if it fails, as on a busy machine."""
    file, kept = task
    if kept.exists():
        return dict(json.loads(kept.read_text()))
    recorded = runs.record(_worker.copy, file, FILE_SECONDS)
    if recorded["failed"]:
        recorded = runs.record(_worker.copy, file, FILE_SECONDS)
    if not recorded["failed"]:
        kept.write_text(json.dumps(recorded))
    return recorded


class _Worker:
    copy: runs.Copy


_worker = _Worker()  # of this process


def _pool(copies: Sequence[runs.Copy]) -> multiprocessing.pool.Pool:
    """A worker process for each copy of the tree."""
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    for number in range(len(copies)):
        queue.put(number)
    return context.Pool(len(copies), _take_copy, (queue, copies))


def _take_copy(queue: SimpleQueue[int], copies: Sequence[runs.Copy]) -> None:
    _worker.copy = copies[queue.get()]


def scores(
    mutants: Sequence[Mutant], survivors: Collection[Mutant], known: Mapping[Key, str]
) -> list[Score]:
    found = []
    for room in ROOMS:
        drawn = [mutant for mutant in mutants if room_of(mutant.path) == room]
        left = [mutant for mutant in drawn if mutant in survivors]
        if drawn:
            explained = sum(mutant.key in known for mutant in left)
            found.append(Score(room, len(drawn), len(left), explained))
    return found


def report(
    mutants: Sequence[Mutant], survivors: Collection[Mutant], known: Mapping[Key, str]
) -> None:
    """Print the scores, and which explanations are wrong."""
    by_room = scores(mutants, survivors, known)
    total = Score("all", *(sum(numbers) for numbers in list(zip(*by_room, strict=True))[1:]))
    print(f"{'room':<16}{'mutants':>8}{'survived':>9}{'score':>8}{'equivalent':>11}{'without':>9}")
    for each in [*by_room, total]:
        print(
            f"{each.room:<16}{each.mutants:>8}{each.survivors:>9}{each.of_all:>8.1%}"
            f"{each.explained:>11}{each.of_findable:>9.1%}"
        )
    for mutant in mutants:
        if mutant.key in known and mutant not in survivors:
            print(f"explained as equivalent, but found: {' | '.join(mutant.key)}")


if __name__ == "__main__":
    sys.exit(main())
