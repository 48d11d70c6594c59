"""Measures what orchestration adds to 20 mapped Batch jobs of 5 s, by ours and others' operators.

All contenders run the same jobs on one stack, in rounds whose order changes. Overhead is the DAG
run's duration according to Airflow, minus the longest job's according to Batch: the jobs don't
depend on each other, and the pool holds all of them.

The claim is about the provider's operator as it ships: our median is at most a third of that of its
faster mode, sync or deferrable. Exits with 1 if it is not. The provider's operator polling every
second is listed but not part of the claim, because nobody gets it by default. Takes about 20
minutes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.orchestration.short_jobs import JobTimes, ShortJobs, running_short_jobs
from laptop.stack import ROOT

FOLDER = ROOT / "build" / "bench-orchestration"
CLAIMED_SHARE = 1 / 3
JOBS = 20
JOB_SECONDS = 5


@dataclass(frozen=True)
class Contender:
    """A way to run the jobs; `poll_interval` in seconds, None for the operator's default."""

    name: str
    operator: str
    poll_interval: int | None
    is_rival: bool = False


OURS = Contender("BenchmarkJobOperator", "batchmark", None)
CONTENDERS = (
    OURS,
    Contender("BatchOperator, sync", "provider_sync", None, is_rival=True),
    Contender("BatchOperator, deferrable", "provider_deferrable", None, is_rival=True),
    Contender("BatchOperator, sync, every second", "provider_sync_eager", None),
    Contender("BatchOperator, deferrable, every second", "provider_deferrable", 1),
)


class IncompleteRunError(Exception):
    """Not all jobs succeeded, so the run's duration means nothing."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each (default: 3)")
    parser.add_argument(
        "--contenders",
        nargs="+",
        type=int,
        default=range(len(CONTENDERS)),
        metavar="NUMBER",
        help="; ".join(f"{number} {each.name}" for number, each in enumerate(CONTENDERS)),
    )
    arguments = parser.parse_args()
    chosen = [CONTENDERS[number] for number in arguments.contenders]
    overheads = measured(chosen, arguments.rounds)
    console = Console()
    console.print(table(overheads))
    if OURS not in chosen or not any(each.is_rival for each in chosen):
        return 0
    share = share_of_better(overheads)
    kept = share <= CLAIMED_SHARE
    console.print(
        f"Ours is {share:.2f} of the better of the provider's as delivered; at most "
        f"{CLAIMED_SHARE:.2f} is claimed: {'kept' if kept else 'MISSED'}"
    )
    return 0 if kept else 1


def measured(contenders: Sequence[Contender], rounds: int) -> dict[Contender, list[float]]:
    """Run all contenders in turn on one stack; return seconds of overhead, one per round."""
    overheads: dict[Contender, list[float]] = {each: [] for each in contenders}
    with running_short_jobs(FOLDER) as jobs:
        run_once(jobs, contenders[0], "warm-up", count=2)
        for number in range(rounds):
            for step in range(len(contenders)):
                contender = contenders[(number + step) % len(contenders)]
                name = f"{contender.operator}-{contender.poll_interval}-{number}"
                overheads[contender].append(run_once(jobs, contender, name, count=JOBS))
    return overheads


def run_once(jobs: ShortJobs, contender: Contender, name: str, *, count: int) -> float:
    """Run the DAG once; return seconds of overhead.

    Raises:
        IncompleteRunError: a task or a job failed.
    """
    conf: dict[str, object] = {"name": name, "jobs": count, "seconds": [JOB_SECONDS]}
    if contender.poll_interval:
        conf["poll_interval"] = contender.poll_interval
    run = jobs.run(contender.operator, conf)
    times = jobs.times(name)
    if run.states != {"success": count} or len(times) != count:
        raise IncompleteRunError(
            f"{contender.name}: {dict(run.states)} tasks and {len(times)} jobs instead of {count} "
            f"successes; see {FOLDER / 'logs'}"
        )
    overhead = overhead_seconds(run.seconds, times)
    print(f"{contender.name}: {run.seconds:.1f} s, of which overhead {overhead:.1f} s", flush=True)
    return overhead


def overhead_seconds(run_seconds: float, times: Sequence[JobTimes]) -> float:
    """A run's duration beyond its longest job: all of its jobs may run at once."""
    return run_seconds - max(time.stopped - time.started for time in times)


def share_of_better(overheads: Mapping[Contender, Sequence[float]]) -> float:
    """Our median as a share of the rivals' smaller median."""
    better = min(median(seconds) for each, seconds in overheads.items() if each.is_rival)
    return median(overheads[OURS]) / better


def table(overheads: Mapping[Contender, Sequence[float]]) -> Table:
    result = Table(title=f"Overhead of {JOBS} jobs of {JOB_SECONDS} s, in seconds")
    for column in ("operator", "median", "least", "most", "ours / it"):
        result.add_column(column, justify="left" if column == "operator" else "right")
    for contender, seconds in overheads.items():
        share = f"{median(overheads[OURS]) / median(seconds):.2f}" if OURS in overheads else "-"
        result.add_row(
            contender.name,
            *(f"{value:.1f}" for value in (median(seconds), min(seconds), max(seconds))),
            share,
        )
    return result


if __name__ == "__main__":
    sys.exit(main())
