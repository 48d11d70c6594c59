"""Reads a user's own jobs from a Terraform inputs file and checks them before anything starts."""

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
ENGINE_SECONDS = 20  # judgment: only for a ping, unlike docker_runtime.py's 240
MOST_FOLDER_BYTES = 2**30  # of what each job gets a copy of
PAGE = "docs/own-jobs.md"
# As returned by the module, which knows their fields and defaults.
OWN_JOBS = "merge({}, module.own_jobs[*].own_jobs...)"


def read_own_jobs(file: Path) -> dict[str, Any]:
    """Return the user's own jobs by name, with Terraform's defaults; ignore all other inputs.

    Raises:
        LaptopError: the file is missing or defines no jobs.
        TerraformError: the file or one of its jobs is invalid.
    """
    if not file.is_file():
        raise LaptopError(
            f"{file} does not exist: JOBS= must name a file of Terraform variables that sets "
            f"own_jobs (see {PAGE})"
        )
    terraform = Terraform(
        ROOT / "terraform",
        data_dir=TERRAFORM_DATA,
        state=TERRAFORM_DATA / "none.tfstate",
        env=clean_environment(),
    )
    init_one_at_a_time(terraform)
    jobs: dict[str, Any] = terraform.evaluate(OWN_JOBS, [file], profile=PROFILE)
    if not jobs:
        raise LaptopError(f"{file} does not set own_jobs: see {PAGE} for examples")
    return jobs


def choose(jobs: Mapping[str, Any], name: str | None, file: Path) -> str:
    """Choose one of the file's jobs by name; the name can be None if there is only one job.

    Raises:
        LaptopError: no job has this name, or the file has several jobs and the name is None.
    """
    if name is None and len(jobs) == 1:
        (name,) = jobs
    if name is None:
        raise LaptopError(f"{file} defines {len(jobs)} jobs ({_names(jobs)}): choose one with JOB=")
    if name not in jobs:
        raise LaptopError(f"{file} defines no job {name!r}, only {_names(jobs)}")
    return name


def for_laptop(job: Mapping[str, Any]) -> dict[str, Any]:
    """Adapt a job to the laptop so that it runs on all targets, with all of their resources.

    Each job then fills the pool, so no two jobs measure at the same time.
    """
    return {**job, **dict.fromkeys(RESOURCES), "targets": []}


def only_on_aws(job: Mapping[str, Any]) -> list[str]:
    """List the fields that a job sets but that `for_laptop` drops."""
    return [field for field in ("targets", *RESOURCES) if job[field]]


def refuse_what_cannot_start(jobs: Mapping[str, Any], folder: Path) -> None:
    """Refuse jobs that couldn't start as processes in a copy of `folder`.

    Raises:
        LaptopError: a job has no command, its program is missing, or its output already exists.
    """
    for name, job in jobs.items():
        refuse_missing_program(name, job, folder)
        _refuse_old_output(name, job, folder)


def refuse_missing_program(name: str, job: Mapping[str, Any], folder: Path) -> None:
    """Refuse a job whose command this machine can't start as a process in `folder`.

    Raises:
        LaptopError: the job has no command, or the command's program is not installed here.
    """
    program = next(iter(job["command"] or ()), "")
    ways_out = "or run its image with ENGINE=yes"
    if not program:
        raise LaptopError(
            f"own job {name} has no command, and the image's default command can't be run without "
            f"the image: set a command, {ways_out}"
        )
    if program.startswith("Ref::"):
        return
    at = str(folder / program) if os.sep in program else program
    if shutil.which(at, path=path_of_jobs()) is None:
        where = f"no program {at}" if os.sep in program else f"no {program} on the PATH"
        raise LaptopError(
            f"own job {name} runs {program!r}, but there is {where}: install it, {ways_out}"
        )


def _refuse_old_output(name: str, job: Mapping[str, Any], folder: Path) -> None:
    """Refuse a job whose output already exists in `folder`, and so in every copy of it.

    Raises:
        LaptopError: the output exists, for example from a manual run.
    """
    output = job["output"]
    if output and not os.path.isabs(output) and (folder / output).exists():
        raise LaptopError(
            f"own job {name} declares the output {output}, but {folder / output} already exists, "
            "so a job that writes no output would pass: remove the file"
        )


def refuse_large_folder(folder: Path) -> None:
    """Refuse a folder that is too large to be copied for each job.

    Raises:
        LaptopError: its files exceed MOST_FOLDER_BYTES, not counting virtual environments.
    """
    size = 0
    for parent, folders, files in os.walk(folder):
        # The local cloud links virtual environments and whatever links point to outside the folder.
        folders[:] = [name for name in folders if not Path(parent, name, "pyvenv.cfg").is_file()]
        size += sum(Path(parent, name).lstat().st_size for name in files)
    if size > MOST_FOLDER_BYTES:
        raise LaptopError(
            f"{folder} contains {memory(size)}, but each job starts in a copy of it, which may "
            f"contain at most {memory(MOST_FOLDER_BYTES)}: move large files elsewhere and use "
            "their absolute paths, or run the image with ENGINE=yes"
        )


def require_engine() -> None:
    """Raise LaptopError unless a Docker engine responds."""
    try:
        client = docker.from_env(timeout=ENGINE_SECONDS)
        client.ping()
        client.close()
    except (DockerException, RequestException) as error:
        reason = str(error).splitlines()[0]
        raise LaptopError(
            f"ENGINE=yes requires a Docker engine, but none is responding ({reason}): start one, "
            "set DOCKER_HOST, or omit ENGINE to run the command as a process"
        ) from error


def _names(jobs: Mapping[str, Any]) -> str:
    return ", ".join(sorted(jobs))
