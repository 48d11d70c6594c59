"""Times products by two libraries in turns, and each alone, as rivals in a trial are timed.

Exits with 1 if one takes more than a tenth longer in turns than alone, or the other way round.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence

from batchmark_job.machine import fingerprint
from batchmark_job.measuring.entry import enter
from batchmark_job.measuring.implementation_choice import start_prepared
from batchmark_job.measuring.problem import Problem
from batchmark_job.measuring.processes.workers import ForkedWorkers, Worker, ignore
from batchmark_job.workloads.builtin import WORKLOADS

SIZES = (256, 512)
RIVALS = ("torch", "numpy")
TURNS = 40
ALLOWED = 0.1


def main() -> int:
    workers = ForkedWorkers()
    failed = False
    print("product, by                alone       in turns   ratio")
    for size in SIZES:
        for name, (alone, together) in alone_and_in_turns(size, TURNS, workers).items():
            ratio = together / alone
            off = abs(ratio - 1) > ALLOWED
            failed = failed or off
            print(
                f"{size} x {size}, {name:<10} {alone * 1e3:8.3f} ms  {together * 1e3:8.3f} ms"
                f"  {ratio:6.3f}{'  OFF' if off else ''}",
                flush=True,
            )
    return int(failed)


def alone_and_in_turns(
    size: int, turns: int, workers: ForkedWorkers
) -> dict[str, tuple[float, float]]:
    """Median seconds of a call by library, in the same processes: alone, and in turns."""
    threads = fingerprint.usable_threads()
    problem = Problem(WORKLOADS["matmul"], {"size": size}, "float32", "cpu")
    entry = enter(problem, (threads,), fingerprint.last_level_cache_bytes(), None)
    entered = {each.name: each for each in entry.candidates if each.name in RIVALS}
    runners = {
        name: start_prepared(problem, each, entry.input_sets, workers, ignore)
        for name, each in entered.items()
    }
    try:
        for runner in runners.values():
            runner.get_ready()
            runner.ask("first_call")
        alone = {name: medians(turns, [runner])[0] for name, runner in runners.items()}
        together = dict(zip(runners, medians(turns, [*runners.values()]), strict=True))
    finally:
        for runner in runners.values():
            runner.end()
    return {name: (alone[name], together[name]) for name in runners}


def medians(turns: int, runners: Sequence[Worker]) -> list[float]:
    taken: list[list[float]] = [[] for _ in runners]
    for _ in range(turns):
        for seconds, runner in zip(taken, runners, strict=True):
            seconds.extend(runner.ask("turn"))
    return [statistics.median(seconds) for seconds in taken]


if __name__ == "__main__":
    sys.exit(main())
