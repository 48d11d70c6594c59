"""Inflicts faults on the bench: those that leave the others alone side by side, then each alone."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.faults.bench import Bench
from tests.faults.fault import Fault
from tests.faults.judging import invariants, outcome
from tests.faults.outcome import Outcome, Result

HERE = Path(__file__).parent
# Each needs workers of Airflow's now and then, and there are two cores.
SIDE_BY_SIDE = 6

Results = dict[tuple[str, str], Result]


def inflict_all(bench: Bench, faults: Iterable[Fault]) -> Results:
    """What came of each fault, by its name and point."""
    results: Results = {}
    beside = [fault for fault in faults if not fault.alone]
    layered = [fault for fault in beside if fault.layered]
    others = [[fault] for fault in beside if not fault.layered]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        for found in pool.map(partial(inflict_in_turn, bench), [layered, *others]):
            results |= found
    bench.mend()
    for fault in faults:
        if fault.alone:
            results |= inflict(bench, fault)
            bench.mend()
    return results


def inflict_in_turn(bench: Bench, faults: Iterable[Fault]) -> Results:
    results: Results = {}
    for fault in faults:
        results |= inflict(bench, fault)
    return results


def inflict(bench: Bench, fault: Fault) -> Results:
    bench.stack.say(f"{fault.name}: begins")
    try:
        struck = fault.inflict(bench)
        runs = struck if isinstance(struck, dict) else {"": struck}
        found = {
            (fault.name, point): Result(
                outcome(bench, run, fault.expected[point]),
                invariants(bench, run),
                (run.ended or run.began) - run.began,
            )
            for point, run in runs.items()
        }
    except Exception as error:
        nothing = Outcome(f"{type(error).__name__}: {error}", jobs=0, kept=False)
        log = traceback.format_exc()
        found = {(fault.name, point): Result(nothing, None, 0.0, log) for point in fault.expected}
    for (_, point), result in found.items():
        what = f"{fault.name} {point}".strip()
        bench.stack.say(f"{what}: {result.seen}; {result.invariants} {result.log}".rstrip())
    return found
