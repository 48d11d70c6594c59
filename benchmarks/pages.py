"""Measures how long pages wait for a history's trends, read from its snapshot or from all files.

The history has runs of 60 series each, in a folder that stands in for the bucket. Each time is
measured in a new process that has already loaded its libraries, as the API server has.

Exits with 1 unless trends from the snapshot take less than 300 ms for 1,000 runs, less than 1 s for
10,000, and at most a third of the time needed to read all files. Takes about three minutes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from batchmark.changes.standing import Standing
from batchmark.history.series import series_histories
from batchmark.history.store import HistoryStore
from batchmark.history.view import SNAPSHOTS, HistoryView
from batchmark.report.site.trends import FEWEST_RUNS, trends
from benchmarks.memory.long_history import ROOT, SUITE, Bucket, write
from benchmarks.synthetic import this_machine

FOLDER = ROOT / "build" / "bench-pages"
TARGETS, POINTS = 5, 12
CLAIMED_SECONDS = {1_000: 0.3, 10_000: 1.0}
CLAIMED_RATIO = 3.0  # judgment: a smaller gain would not be worth the snapshots
ROUNDS = 3  # judgment: enough to see the range; each takes up to a minute


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--read", choices=("snapshot", "everything"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, default=FOLDER, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        print(json.dumps(read(arguments.folder, arguments.read)))
        return 0
    missed = []
    for runs, claimed in CLAIMED_SECONDS.items():
        folder = FOLDER / str(runs)
        write(runs, folder, TARGETS, POINTS)
        HistoryView(HistoryStore(Bucket(folder), "results")).rows(SUITE)  # writes the snapshots
        found: dict[str, list[float]] = {"snapshot": [], "everything": []}
        for _ in range(ROUNDS):
            for how, seconds in found.items():
                seconds.append(in_a_new_process(folder, how))
        first, everything = (median(found[how]) for how in ("snapshot", "everything"))
        print(
            f"{runs:,} runs x {TARGETS * POINTS} series: trends from the snapshot "
            f"{first * 1000:.0f} ms "
            f"({min(found['snapshot']) * 1000:.0f} to {max(found['snapshot']) * 1000:.0f}), "
            f"from all files {everything * 1000:.0f} ms, {everything / first:.1f} times as long"
        )
        if first >= claimed:
            missed.append(f"trends of {runs:,} runs take {first:.2f} s; the limit is {claimed:g} s")
        if everything < CLAIMED_RATIO * first:
            missed.append(
                f"{runs:,} runs: not {CLAIMED_RATIO:g} times as fast as reading all files"
            )
    print(f"{this_machine()}; medians (range) of {ROUNDS} alternating processes")
    for text in missed:
        print(f"TARGET MISSED: {text}")
    return 1 if missed else 0


def in_a_new_process(folder: Path, how: str) -> float:
    command = [sys.executable, "-m", "benchmarks.pages", "--read", how, "--folder", str(folder)]
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return float(json.loads(ended.stdout))


def read(folder: Path, how: str) -> float:
    """Return the seconds from opening the history until the suite's trends are ready."""
    snapshots, aside = folder / SNAPSHOTS, folder / "aside"
    if how == "everything":
        snapshots.rename(aside)
    began = time.perf_counter()
    view = HistoryView(HistoryStore(Bucket(folder), "results"))
    rows = view.rows(SUITE, least_runs=None if how == "everything" else FEWEST_RUNS)
    found = series_histories(rows, "time")
    # Not evaluated, as that takes the same time however the rows were read.
    shown = trends(found, [], {}, standings={one.key: Standing() for one in found})
    seconds = time.perf_counter() - began
    if how == "everything":
        shutil.rmtree(snapshots)
        aside.rename(snapshots)
    if len(shown) != TARGETS * POINTS:
        raise SystemExit(f"read {len(shown)} series instead of {TARGETS * POINTS}")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
