"""Counts how many of 200 short mapped jobs Airflow loses, in three rounds.

With `--operators batchmark provider_deferrable` the provider's operator runs the same jobs on the
same stack after ours. Exits with 1 if ours lost a job. Takes about 4 minutes per round.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.orchestration.short_jobs import running_short_jobs
from laptop.stack import ROOT

FOLDER = ROOT / "build" / "bench-mapped"
OURS = "batchmark"
SECONDS = list(range(8))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--times", type=int, default=3, help="rounds (default: 3)")
    parser.add_argument(
        "--operators", nargs="+", default=[OURS], choices=[OURS, "provider_deferrable"]
    )
    arguments = parser.parse_args()
    lines, lost = [], 0
    with running_short_jobs(FOLDER) as jobs:
        for number in range(1, arguments.times + 1):
            for operator in arguments.operators:
                # Asking every second makes a race between a job's end and the deferral most likely.
                conf = {"jobs": arguments.jobs, "seconds": SECONDS, "poll_interval": 1}
                run = jobs.run(operator, {**conf, "name": f"{operator}-{number}"})
                lines.append(
                    f"round {number}, {operator}: {dict(run.states)} of {arguments.jobs} jobs "
                    f"in {run.seconds:.0f} s"
                )
                if operator == OURS:
                    lost += arguments.jobs - run.states["success"]
    print("\n".join(lines))
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
