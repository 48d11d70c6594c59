"""Own jobs in a file of Terraform inputs, read and checked before anything starts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import docker
from docker.errors import DockerException
from requests.exceptions import RequestException

from batchmark.core.formatting import memory
from laptop.errors import LaptopError
from laptop.stack import (
    PROFILE,
    ROOT,
    TERRAFORM_DATA,
    clean_environment,
    init_one_at_a_time,
    path_of_jobs,
)
from laptop.terraform import Terraform

RESOURCES = ("vcpus", "memory_mib", "gpus")  # null: what the target has
ENGINE_SECONDS = 20
MOST_FOLDER_BYTES = 2**30  # of what each job gets a copy of
PAGE = "docs/own-jobs.md"
# As the module has them that knows their fields and defaults.
OWN_JOBS = "merge({}, module.own_jobs[*].own_jobs...)"


def read_own_jobs(file: Path) -> dict[str, Any]:
    """Terraform's input `own_jobs` by name, with its defaults; all else in the file is left out.

    Raises:
        LaptopError: there is no such file, or no own job in it.
        TerraformError: it is no file of inputs, or an own job is none.
    """
    if not file.is_file():
        raise LaptopError(
            f"there is no file {file}: JOBS= names one of Terraform inputs with own_jobs ({PAGE})"
        )
    terraform = Terraform(
        ROOT / "terraform",
        data_dir=TERRAFORM_DATA,
        state=TERRAFORM_DATA / "none.tfstate",
        env=clean_environment(),
    )
    init_one_at_a_time(terraform)
    jobs: dict[str, Any] = terraform.evaluate(OWN_JOBS, [file, PROFILE])
    if not jobs:
        raise LaptopError(f"{file} has no own_jobs: {PAGE} shows what one looks like")
    return jobs


def choose(jobs: Mapping[str, Any], name: str | None, file: Path) -> str:
    """The name of one of the file's jobs, which may be left out where there is only one.

    Raises:
        LaptopError: there is none of that name, or no telling which of several.
    """
    if name is None and len(jobs) == 1:
        (name,) = jobs
    if name is None:
        raise LaptopError(f"{file} has {len(jobs)} own jobs: choose one with JOB=, {_names(jobs)}")
    if name not in jobs:
        raise LaptopError(f"{file} has no own job {name!r}, only {_names(jobs)}")
    return name


def for_laptop(job: Mapping[str, Any]) -> dict[str, Any]:
    """The job on the laptop's targets, whichever it names, with all that a job of these has.

    So each fills the pool, and no two measure at once.
    """
    return {**job, **dict.fromkeys(RESOURCES), "targets": []}


def only_on_aws(job: Mapping[str, Any]) -> list[str]:
    """The fields of a job that are given, and that `for_laptop` leaves out."""
    return [field for field in ("targets", *RESOURCES) if job[field]]


def refuse_what_cannot_start(jobs: Mapping[str, Any], folder: Path) -> None:
    """Refuse jobs, by name, that can't start as processes, each in a copy of `folder`.

    Raises:
        LaptopError: a program is missing, or an output is there already.
    """
    for name, job in jobs.items():
        refuse_missing_program(name, job, folder)
        _refuse_old_output(name, job, folder)


def refuse_missing_program(name: str, job: Mapping[str, Any], folder: Path) -> None:
    """Refuse a job whose command this machine can't start as a process in `folder`.

    Raises:
        LaptopError: the command has no program, or it is not installed here.
    """
    program = next(iter(job["command"] or ()), "")
    ways_out = "or run its image: ENGINE=yes"
    if not program:
        raise LaptopError(
            f"own job {name} has no command, and no image is started here that could bring one: "
            f"give it, {ways_out}"
        )
    if program.startswith("Ref::"):
        return
    at = str(folder / program) if os.sep in program else program
    if shutil.which(at, path=path_of_jobs()) is None:
        where = f"no program {at}" if os.sep in program else f"no {program} on the PATH"
        raise LaptopError(
            f"own job {name} begins with {program!r}, and there is {where}: install it, {ways_out}"
        )


def _refuse_old_output(name: str, job: Mapping[str, Any], folder: Path) -> None:
    """Refuse a job whose output is in `folder` already, as each copy would have it.

    Raises:
        LaptopError: it is there, such as from a run by hand.
    """
    output = job["output"]
    if output and not os.path.isabs(output) and (folder / output).exists():
        raise LaptopError(
            f"own job {name} has the output {output}, and {folder / output} is there already, so "
            "that a job that writes none would pass: remove it"
        )


def refuse_large_folder(folder: Path) -> None:
    """Refuse a folder of which no copy can be made for each job.

    Raises:
        LaptopError: its files have more than MOST_FOLDER_BYTES, virtual environments left out.
    """
    size = 0
    for parent, folders, files in os.walk(folder):
        # The local cloud links it, as it does what links lead to.
        folders[:] = [name for name in folders if not Path(parent, name, "pyvenv.cfg").is_file()]
        size += sum(Path(parent, name).lstat().st_size for name in files)
    if size > MOST_FOLDER_BYTES:
        raise LaptopError(
            f"{folder} holds {memory(size)}, and each job starts in a copy of it, which may have "
            f"{memory(MOST_FOLDER_BYTES)}: move large files elsewhere and name them by their whole "
            "paths, or run the image: ENGINE=yes"
        )


def require_engine() -> None:
    """Raise LaptopError unless a Docker engine answers."""
    try:
        client = docker.from_env(timeout=ENGINE_SECONDS)
        client.ping()
        client.close()
    except (DockerException, RequestException) as error:
        reason = str(error).splitlines()[0]
        raise LaptopError(
            f"ENGINE=yes needs a Docker engine, and none answers ({reason}): start one, set "
            "DOCKER_HOST, or leave ENGINE out to run the command as a process"
        ) from error


def _names(jobs: Mapping[str, Any]) -> str:
    return ", ".join(sorted(jobs))
