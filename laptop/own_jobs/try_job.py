"""`make try-job`: runs a user's own job, defined in a Terraform inputs file, and reports on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from batchmark.core.errors import PlanError
from batchmark.core.formatting import count
from batchmark.core.kinds import COMPARISON_DAG, OWN_JOB_DAG
from batchmark.core.output import say
from batchmark.core.own_jobs import OwnJobRun
from batchmark.runs.plans.options import parse_options
from laptop import TARGETS
from laptop.demo import run_once
from laptop.errors import LaptopError
from laptop.own_jobs.jobs_file import (
    choose,
    for_laptop,
    only_on_aws,
    read_own_jobs,
    refuse_large_folder,
    refuse_what_cannot_start,
    require_engine,
)
from laptop.own_jobs.versions import SIDES, Version, comparison, definition_of
from laptop.session import Clock, refuse_at_once
from laptop.stack import TRENDS_HTML, Stack

RUN_MINUTES = 4  # of the example, on two busy cores
NO_IMAGE = "CannotPullContainerError"


def try_job(
    file: Path,
    name: str | None,
    repeats: int,
    folder: Path,
    *,
    engine: bool,
    watch: str | None = None,
    target: str | None = None,
    commit: str | None = None,
) -> None:
    """Run a user's own job on one or all targets, and write the report to `folder`.

    Args:
        name: the job's name; can be None if the file has only one job.
        target: one of TARGETS, or None for all of them.
        commit: what the job measures; None for the one in the file, if any.
        watch: number of runs; if given, their trend is written next to the report.
        engine: run the job's image on a Docker engine, instead of its command as a process in a
            copy of the file's folder.

    Raises:
        LaptopError: the file or the job can't be used here, or the run failed.
    """
    runs = _runs(watch)
    clock = Clock()
    _check([file], repeats, folder, engine=engine)
    name, job = _read(file, name, clock, engine=engine)
    targets = [target] if target else list(TARGETS)
    clock.say(_announced(name, job, repeats, len(targets), "target"))
    if watch:
        clock.say(
            f"WATCH={runs}: {count(runs, 'run')} of these jobs, about {RUN_MINUTES * runs + 2} "
            "minutes for the thumbnails example; for other jobs, an estimate follows the first run"
        )
    conf = {"job": name, "targets": targets, "repeats": repeats}
    if commit:
        conf["commit"] = commit
    trend: list[str] = []

    def follow(stack: Stack) -> None:
        # Only now: it loads libraries for a second.
        from laptop.own_jobs.watching import history_of, trend_lines, write_trends

        rows = history_of(stack, name)
        write_trends(name, rows, stack.folder)
        trend[:] = ["", *trend_lines(name, rows)]

    _run(
        folder,
        OWN_JOB_DAG,
        conf,
        clock,
        [job],
        runs=runs,
        after=follow if watch else None,
        more=f"trend:  {folder / TRENDS_HTML}\n" if watch else "",
        own_jobs={name: for_laptop(job)},
        jobs_file=file.resolve(),
        engine=engine,
    )
    for line in trend:
        say(line)


def compare_versions(
    new: Version,
    baseline: Version,
    name: str | None,
    repeats: int,
    folder: Path,
    *,
    engine: bool,
    target: str | None = None,
) -> None:
    """Run two versions of a user's own job on one target, and write the report to `folder`.

    They take turns, so that whatever else happens on this machine disturbs both alike.

    Args:
        target: one of TARGETS; None for the first.

    Raises:
        LaptopError: as in `try_job`, or the versions can't be compared.
    """
    clock = Clock()
    versions = (new, baseline)
    _check([version.file for version in versions], repeats, folder, engine=engine)
    jobs = []
    for version in versions:
        name, job = _read(version.file, name, clock, engine=engine)
        jobs.append(job)
    target = target or TARGETS[0]
    conf = comparison(name or "", versions, jobs, target, repeats)
    clock.say(_announced(name or "", jobs[0], repeats, len(jobs), "version"))
    _run(
        folder,
        COMPARISON_DAG,
        conf,
        clock,
        jobs,
        own_jobs=dict(zip(SIDES, map(for_laptop, jobs), strict=True)),
        jobs_file=new.file.resolve(),
        definition_dirs={
            definition_of(side, target): version.folder
            for side, version in zip(SIDES, versions, strict=True)
        },
        engine=engine,
    )


def _check(files: Sequence[Path], repeats: int, folder: Path, *, engine: bool) -> None:
    """Refuse, before Terraform reads for seconds, what is refused without knowing the jobs.

    Raises:
        LaptopError: see `try_job`.
    """
    try:
        parse_options(OwnJobRun, {"repeats": repeats})
    except PlanError as error:
        raise LaptopError(str(error)) from error
    refuse_at_once(folder.resolve())
    if engine:
        require_engine()
        return
    for file in files:
        refuse_large_folder(file.resolve().parent)


def _read(
    file: Path, name: str | None, clock: Clock, *, engine: bool
) -> tuple[str, Mapping[str, Any]]:
    """Read the file's job of this name, or its only one, and check that it can start here.

    Raises:
        LaptopError: see `try_job`.
    """
    clock.say(f"Terraform: reading {file} (about 10 s)")
    jobs = read_own_jobs(file)
    name = choose(jobs, name, file)
    job = jobs[name]
    if not engine:
        refuse_what_cannot_start({name: job}, file.resolve().parent)
    if fields := only_on_aws(job):
        clock.say(
            f"own job {name}: {', '.join(fields)}: used only on AWS; here each job gets all of its "
            "target's resources"
        )
    return name, job


def _run(
    folder: Path,
    dag_id: str,
    conf: Mapping[str, Any],
    clock: Clock,
    jobs: Sequence[Mapping[str, Any]],
    **options: Any,
) -> None:
    """Run these jobs; if their images are missing, say how to build them.

    Raises:
        LaptopError: the run failed.
    """
    try:
        # Nothing costs money here, so a timeout that would be too expensive on AWS is no obstacle.
        run_once(folder, dag_id, {**conf, "max_cost_usd": None}, clock, **options)
    except LaptopError as error:
        if NO_IMAGE not in str(error):
            raise
        images = dict.fromkeys(image for job in jobs for image in _images(job))
        builds = "\n".join(f"    docker build -t {image} FOLDER" for image in images)
        raise LaptopError(f"{error}\nbuild the missing images first:\n{builds}") from error


def _runs(watch: str | None) -> int:
    """Parse WATCH=, the number of runs; return 1 if it is not set.

    Raises:
        LaptopError: WATCH is not a whole number above 0.
    """
    if watch is None:
        return 1
    if not (watch.isdecimal() and int(watch) > 0):
        raise LaptopError(
            f"WATCH is {watch!r}: it must be a number of runs, such as WATCH=5; omit it for a "
            "single run"
        )
    return int(watch)


def _announced(name: str, job: Mapping[str, Any], repeats: int, places: int, what: str) -> str:
    """Describe in one line what will run; `what` are the places, such as targets."""
    sizes = len(job["axis"]["sizes"]) if job["axis"] else 1
    factors = [count(places, what), count(repeats, "repeat")]
    if sizes > 1:
        factors.insert(1, count(sizes, "size"))
    jobs = count(places * sizes * repeats, "job")
    return f"own job {name}: {' x '.join(factors)} = {jobs}, plus one to start each target"


def _images(job: Mapping[str, Any]) -> Iterable[str]:
    return [job["image"]] if job["image"] else job["images"].values()
