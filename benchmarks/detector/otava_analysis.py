"""Times otava for speed.py; run it with the Python from otava's own environment.

For each line "first last" on standard input, analyses series `first` to `last` - 1 with otava's
defaults, and prints the elapsed seconds, the CPU seconds and the number of changes.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from otava.analysis import compute_change_points


def main() -> None:
    with np.load(sys.argv[1]) as data:
        series = data["seconds"].tolist()  # lists, as otava's own series are
    for line in sys.stdin:
        first, last = map(int, line.split())
        began, cpu_began = time.perf_counter(), time.process_time()
        found = [compute_change_points(values)[0] for values in series[first:last]]
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
        print(seconds, cpu_seconds, sum(map(len, found)), flush=True)


if __name__ == "__main__":
    main()
