"""Simulates how often noise alone is mistaken for a slowdown, at each level of required evidence.

Two constants in `batchmark.changes.false_alerts` are fitted to the first table: the rate of false
alerts at the minimum evidence, and how fast it falls as more evidence is required. The second table
compares the promised number of false alerts with the simulated number, by number of series and by
kind of noise (from `history_alone`).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from batchmark.changes.change_points import search
from batchmark.changes.evidence import EVIDENCE
from batchmark.changes.false_alerts import evidence_of
from batchmark.changes.metric import Metric
from benchmarks.detector import history_alone
from benchmarks.detector.history_alone import NOISES, histories_without, rises
from benchmarks.detector.reruns import RUNS
from benchmarks.synthetic import RUNS_A_MONTH, this_machine

# The constants are fitted to these. Other kinds have shifting levels, or are those that reports
# call hard to watch.
FAMILY = (
    "independent",
    "Student's t, 3 degrees",
    "skewed (exponential)",
    "two speeds",
    "correlation 0.3",
)
MORE_EVIDENCE = (0.0, 0.6, 1.2, 1.8, 2.4, 3.2)  # runs more than EVIDENCE
FLEETS = (*history_alone.FLEETS, 10_000)


def false_alerts(logs: Sequence[np.ndarray], evidence: float) -> float:
    """Return the number of slowdown alerts per run; all are false, because no series has a step."""
    found = search(logs, evidence=[evidence] * len(logs), hindsight=False)
    alerts = sum(
        rises(own, change) for own, changes in zip(logs, found, strict=True) for change in changes
    )
    return alerts / sum(own.size for own in logs)


def fit(rates: Mapping[str, Sequence[float]]) -> tuple[float, float]:
    """Fit the false-alert rate at EVIDENCE and its decay to FAMILY's mean rates (least squares)."""
    mean = np.log(np.mean([rates[kind] for kind in FAMILY], axis=0))
    slope, start = np.polyfit(MORE_EVIDENCE, mean, 1)
    return float(np.exp(start)), float(-slope)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument(
        "--count", type=int, default=300, help="number of series for each kind of noise and seed"
    )
    arguments = parser.parse_args()
    threadpool_limits(1)
    began = time.process_time()
    logs: dict[str, list[np.ndarray]] = defaultdict(list)
    for seed in arguments.seeds:
        for history in histories_without(seed, arguments.count):
            logs[history.kind].append(history.logs)
    levels = [EVIDENCE + more for more in MORE_EVIDENCE]
    print("False alerts per 1,000 runs, by required evidence")
    print(f"{'':<26}" + "".join(f"{level:8.1f}" for level in levels))
    rates = {}
    for kind in NOISES:
        rates[kind] = [false_alerts(logs[kind], level) for level in levels]
        print(f"{kind:<26}" + "".join(f"{1000 * rate:8.3f}" for rate in rates[kind]), flush=True)
    rate, decay = fit(rates)
    print(f"fit to the first {len(FAMILY)} kinds of noise: RATE {rate:.2g}, DECAY {decay:.2f}\n")
    promised = 1 / len(Metric)
    needed = [evidence_of(number * RUNS_A_MONTH, 1.0) for number in FLEETS]
    print(f"False alerts per month, by number of weekly time series; promised rate: {promised:g}")
    print(f"{'':<26}" + "".join(f"{number:10,}" for number in FLEETS))
    print(f"{'evidence':<26}" + "".join(f"{level:10.2f}" for level in needed))
    for kind in NOISES:
        found = [
            number * RUNS_A_MONTH * false_alerts(logs[kind], level)
            for number, level in zip(FLEETS, needed, strict=True)
        ]
        print(f"{kind:<26}" + "".join(f"{each:10.2f}" for each in found), flush=True)
    runs = arguments.count * len(arguments.seeds) * RUNS
    print(
        f"{runs:,} runs for each kind of noise; {time.process_time() - began:.0f} s of CPU time; "
        f"{this_machine()}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
