"""A/A test: runs one job many times on this machine and counts rows wrongly reported as different.

Prints each row's noise floor and smallest detectable change, then compares the repeats with each
other by the rule used for targets, splitting them in several ways. Exits with 1 if in any of these
ways more than 1 in 100 comparisons report a difference. The documents are kept in a folder under
build/noise-floor/; --resume continues an interrupted test.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from batchmark.analysis.judging.calibration import samples_of_repeats
from batchmark.analysis.judging.noise import FEWEST_JOBS, measure_noise, row_scatter
from batchmark.analysis.judging.verdict import Contestant, judge
from batchmark.analysis.pooling import TargetJobs, group_jobs
from batchmark.core.formatting import shortened_list
from batchmark.core.suites import OWN_DTYPES
from batchmark.report.tables import noise_table
from batchmark.report.terminal.sections import print_blocks
from batchmark.runs.document_files import run_of
from batchmark_job.result.document import ResultDocument, ResultError, parse_document

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "noise-floor"
MOST_CALLED_DIFFERENT = 0.01  # the 1 in 100 that docs/decisions/0009 allows
SPLITS = 200  # of which MOST_CALLED_DIFFERENT is two per row; more take longer
SEED = 20261121
TARGET = "local"


@dataclass(frozen=True)
class Design:
    """A way to split the repeats into two sides to compare."""

    name: str
    jobs_a_side: int
    calibrated: bool  # estimate noise from jobs on neither side; otherwise from the compared ones


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--suite", default="smoke")
    parser.add_argument("--workload", help="measure one workload instead of a suite")
    parser.add_argument("--axis", action="append", default=[], help="NAME=V1,V2")
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="FOLDER",
        help="folder of an interrupted test to resume; the code must be the same",
    )
    arguments = parser.parse_args()
    if arguments.repeats < FEWEST_JOBS:
        parser.error(f"--repeats {arguments.repeats} is too few; the minimum is {FEWEST_JOBS}")
    what = (
        ["--workload", arguments.workload, *(f"--axis={axis}" for axis in arguments.axis)]
        if arguments.workload
        else ["--suite", arguments.suite]
    )
    if arguments.resume and not arguments.resume.is_dir():
        parser.error(
            f"--resume {arguments.resume} is not a folder; interrupted runs are in {FOLDER}"
        )
    folder = arguments.resume or FOLDER / f"{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}"
    console = Console(width=160)
    console.print(f"repeats are saved in {folder}", highlight=False)
    return report(all_repeats(arguments.repeats, folder, what, console), folder, console)


def all_repeats(
    number: int, folder: Path, what: Sequence[str], console: Console
) -> list[ResultDocument]:
    """Return all repeats in order, measuring any that are missing."""
    documents = {repeat: finished(folder / f"{repeat}.json") for repeat in range(1, number + 1)}
    missing = [repeat for repeat, document in documents.items() if document is None]
    began = time.monotonic()
    for done, repeat in enumerate(missing):
        left = len(missing) - done
        if done:
            seconds = (time.monotonic() - began) / done * left
            about = f"about {seconds / 60:.1f} min left"
        else:
            about = f"{left} to measure"
        console.print(f"repeat {repeat} of {number}, {about}", highlight=False)
        documents[repeat] = measure(folder / f"{repeat}.json", what)
    return [document for document in documents.values() if document]


def finished(path: Path) -> ResultDocument | None:
    """Return a completed repeat's document, or None if it is missing or incomplete."""
    try:
        document = parse_document(path.read_bytes())
    except (FileNotFoundError, ResultError):
        return None
    return document if document.status == "complete" else None


def measure(path: Path, what: Sequence[str]) -> ResultDocument:
    """Measure one repeat in its own process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "batchmark_job", "run", *what, "--output", str(path)]
    done = subprocess.run(
        [*command, "--target", TARGET, "--run-id", "noise-floor"],
        stdout=subprocess.DEVNULL,
        check=False,
    )
    document = finished(path)
    if document is None:
        raise SystemExit(f"repeat {path.stem} ended with exit code {done.returncode}")
    return document


def report(documents: Sequence[ResultDocument], folder: Path, console: Console) -> int:
    """Print and store the noise, compare the repeats with each other, and return the exit code."""
    run = run_of("noise-floor", documents)
    groups = group_jobs(run)
    if len(groups) > 1:
        raise SystemExit(
            f"{folder} contains repeats of more than one suite or target: "
            f"{shortened_list([suite for suite, _ in groups])}"
        )
    ((target,),) = groups.values()
    if refusal := target.refusal():
        raise SystemExit(refusal)
    table = measure_noise(
        target,
        suite=documents[0].suite,
        dtype=OWN_DTYPES,
        region=None,
        run_id=run.run_id,
    )
    (folder / "noise.json").write_text(table.to_json())
    environment = documents[0].environment
    console.print(
        f"{len(documents)} repeats on {environment.gpu_model or environment.cpu_model}, "
        f"{environment.compute_threads} threads, {documents[-1].finished_at:%Y-%m-%d}"
    )
    print_blocks([noise_table(table)], console)
    shown = Table("Jobs per side", "Noise from", "Comparisons", "Called different", "Share", "Rows")
    worst = 0.0
    for design in designs(len(documents)):
        comparisons, different = compare(target, design)
        share = sum(different.values()) / comparisons
        worst = max(worst, share)
        shown.add_row(
            design.name,
            "the other jobs" if design.calibrated else "these jobs",
            str(comparisons),
            str(sum(different.values())),
            f"{share:.2%}",
            shortened_list([row for row, count in different.items() if count]),
        )
    console.print(shown)
    console.print(
        f"At most 1 in 100 may be reported as different; the largest share is {worst:.2%}."
    )
    return int(worst > MOST_CALLED_DIFFERENT)


def designs(repeats: int) -> Iterator[Design]:
    yield Design("odd against even", repeats // 2, calibrated=False)
    yield Design(f"{repeats // 2} at random", repeats // 2, calibrated=False)
    for jobs in (5, 3):
        if jobs < repeats // 2:
            yield Design(f"{jobs} at random", jobs, calibrated=False)
    for jobs in (5, 3, 1):
        # With fewer other jobs, the compared ones would be judged by their own spread.
        if repeats - 2 * jobs >= max(jobs, FEWEST_JOBS):
            name = "1, all pairs" if jobs == 1 else f"{jobs} at random"
            yield Design(name, jobs, calibrated=True)


def splits(repeats: Sequence[int], design: Design) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the repeats on each side for every comparison in a design."""
    jobs = design.jobs_a_side
    if design.name == "odd against even":
        yield list(repeats[: 2 * jobs : 2]), list(repeats[1 : 2 * jobs : 2])
        return
    if jobs == 1:
        yield from (([first], [second]) for first, second in itertools.combinations(repeats, 2))
        return
    rng = np.random.default_rng([SEED, jobs])
    for _ in range(SPLITS):
        drawn = rng.permutation(repeats).tolist()
        yield drawn[:jobs], drawn[jobs : 2 * jobs]


def compare(target: TargetJobs, design: Design) -> tuple[int, dict[str, int]]:
    """Return the number of comparisons, and how often each row was reported as different."""
    comparisons = 0
    different: dict[str, int] = {}
    for (workload, parameters, dtype), samples in target.samples.items():
        if samples.problem:
            continue
        name = " ".join([workload, *(f"{key}={value}" for key, value in parameters), dtype])
        different[name] = 0
        repeats = [job.planned.repeat for job, _ in samples.measured]
        for sides in splits(repeats, design):
            used = {repeat for side in sides for repeat in side}
            rest = [repeat for repeat in repeats if repeat not in used]
            known = row_scatter(samples_of_repeats(samples, rest)) if design.calibrated else None
            first, second = (
                Contestant(target.name, samples_of_repeats(samples, side), known) for side in sides
            )
            comparisons += 1
            different[name] += judge(first, second).faster is not None
    return comparisons, different


if __name__ == "__main__":
    sys.exit(main())
