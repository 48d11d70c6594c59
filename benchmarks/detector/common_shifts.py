"""Simulates a level shift in all of a target's rows, with and without common-shift detection.

Each target has twelve rows with independent noise. A shift counts as detected if an alert about
the whole environment dates it to within five runs. Prints the share of shifts detected with
`changes.common_shifts`, and the share detected from single rows alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from batchmark.changes.attribution import group_changes
from batchmark.changes.detection import detect_changes
from batchmark.changes.records import ChangePoint, Series
from benchmarks.detector.judged_alerts import MARGIN
from benchmarks.detector.simulated_schedule import number_of
from benchmarks.synthetic import daily, series_key, this_machine

ROWS, BEFORE = 12, 60
AFTER = (4, 6, 10, 20)  # runs after the shift
SHIFTS, LOG_SDS = (0.0, 0.02, 0.03, 0.05), (0.02, 0.05)


def target(rng: np.random.Generator, shift: float, log_sd: float) -> list[Series]:
    runs = np.arange(BEFORE + AFTER[-1])
    level = np.log1p(shift) * (runs >= BEFORE)
    return [
        daily(
            series_key(target="target", parameters=f'{{"size":{row}}}'),
            runs,
            np.exp(level + log_sd * rng.standard_normal(runs.size)),
        )
        for row in range(ROWS)
    ]


def is_told(rows: Sequence[Series], points: Sequence[ChangePoint]) -> bool:
    changes = group_changes(points, {}, measured=[row.key for row in rows])
    return any(
        change.environment
        and change.points[0].worse
        and abs(number_of(change.points[0].first_run_id) - BEFORE) <= MARGIN
        for change in changes
    )


def until(rows: Sequence[Series], end: int) -> list[Series]:
    return [daily(row.key, np.arange(end), row.values[:end]) for row in rows]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--targets", type=int, default=100, help="number of targets per table cell")
    arguments = parser.parse_args()
    threadpool_limits(1)
    began = time.process_time()
    rng = np.random.default_rng(arguments.seed)
    print(
        f"Share of {arguments.targets} targets whose shift was detected, by number of runs since "
        "the shift; with / without common-shift detection"
    )
    print(f"{'':<24}" + "".join(f"{after:>14}" for after in AFTER))
    for log_sd in LOG_SDS:
        for shift in SHIFTS:
            told = np.zeros((2, len(AFTER)))
            for _ in range(arguments.targets):
                rows = target(rng, shift, log_sd)
                for place, after in enumerate(AFTER):
                    shown = until(rows, BEFORE + after)
                    points = detect_changes(shown)
                    told[0, place] += is_told(shown, points)
                    told[1, place] += is_told(shown, [one for one in points if not one.common])
            shares = told / arguments.targets
            cells = "".join(f"{f'{own:.0%} / {rest:.0%}':>14}" for own, rest in shares.T)
            print(f"{shift:.0%} at {log_sd:.0%} noise".ljust(24) + cells, flush=True)
    print(f"{time.process_time() - began:.0f} s of CPU time; {this_machine()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
