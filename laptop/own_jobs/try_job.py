"""`make try-job`: a user's own job once, from a file of Terraform inputs to a report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from batchmark.core.formatting import count
from laptop.demo import run_once
from laptop.errors import LaptopError
from laptop.own_jobs.jobs_file import (
    choose,
    for_laptop,
    only_on_aws,
    read_own_jobs,
    refuse_large_folder,
    refuse_missing_program,
    refuse_old_output,
    require_engine,
)
from laptop.session import Clock

DAG_ID = "own_job_benchmark"
TARGETS = 2  # of terraform/local.tfvars
NO_IMAGE = "CannotPullContainerError"


def try_job(file: Path, name: str | None, repeats: int, folder: Path, *, engine: bool) -> None:
    """Run one own job of a file on all targets and leave the report in `folder`.

    Args:
        name: may be left out where the file has one job.
        engine: run its image on a Docker engine; else its command as a process in the file's
            folder.

    Raises:
        LaptopError: the file or the job can't be used here, or the run failed.
    """
    clock = Clock()
    clock.say(f"Terraform: reading {file}")
    jobs = read_own_jobs(file)
    name = choose(jobs, name, file)
    job = jobs[name]
    if engine:
        require_engine()
    else:
        refuse_missing_program(name, job, file.resolve().parent)
        refuse_old_output(name, job, file.resolve().parent)
        refuse_large_folder(file.resolve().parent)
    clock.say(_announced(name, job, repeats))
    if fields := only_on_aws(job):
        said = f"{', '.join(fields)}: only on AWS; here it has all of each of the laptop's targets"
        clock.say(f"own job {name}: {said}")
    # Nothing costs money here, so no timeout that would cost too much on AWS keeps it from running.
    conf = {"job": name, "repeats": repeats, "max_cost_usd": None}
    try:
        run_once(
            folder,
            DAG_ID,
            conf,
            clock,
            own_jobs={name: for_laptop(job)},
            job_dir=file.resolve().parent,
            engine=engine,
        )
    except LaptopError as error:
        if NO_IMAGE not in str(error):
            raise
        builds = "\n".join(f"    docker build -t {image} FOLDER" for image in _images(job))
        raise LaptopError(f"{error}\nbuild what is missing first:\n{builds}") from error


def _announced(name: str, job: Mapping[str, Any], repeats: int) -> str:
    """What will run, in one line."""
    sizes = len(job["axis"]["sizes"]) if job["axis"] else 1
    factors = [count(TARGETS, "target"), count(repeats, "repeat")]
    if sizes > 1:
        factors.insert(1, count(sizes, "size"))
    jobs = count(TARGETS * sizes * repeats, "job")
    return f"own job {name}: {' x '.join(factors)} = {jobs}, after one that starts each target"


def _images(job: Mapping[str, Any]) -> list[str]:
    images = [job["image"]] if job["image"] else job["images"].values()
    return list(dict.fromkeys(images))
