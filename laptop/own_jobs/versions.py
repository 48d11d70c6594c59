"""Two versions of a user's own job, as the sides of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from laptop.errors import LaptopError

SIDES = ("new", "baseline")  # in the order of all versions and jobs below
INSTALLATION = "batchmark"  # Terraform's default for the input `name`
# What a job definition doesn't tell: how a result is judged, and what it is of.
BESIDE_THE_DEFINITION = ("check", "output", "output_sha256", "shell", "commit", "branch", "label")


class Version(NamedTuple):
    """A file of Terraform inputs that defines the job, and the job's commit if it was given."""

    file: Path
    commit: str | None = None

    @property
    def folder(self) -> Path:
        return self.file.resolve().parent


def comparison(
    name: str,
    versions: Sequence[Version],
    jobs: Sequence[Mapping[str, Any]],
    target: str,
    repeats: int,
) -> dict[str, Any]:
    """Return the options for `job_comparison`, with both versions as sides on one target.

    Raises:
        LaptopError: the versions have different axes, so they share no sizes.
    """
    new, old = (job["axis"] and job["axis"]["parameter"] for job in jobs)
    if new != old:
        raise LaptopError(
            f"the axis of own job {name} is {new or 'not set'}, but in {versions[1].file} it is "
            f"{old or 'not set'}: compare versions with the same axis"
        )
    return {
        "name": name,
        "sides": [
            {
                "name": side,
                "job_queue": queue_of(target),
                "job_definition": definition_of(side, target),
                **{field: job[field] for field in BESIDE_THE_DEFINITION if job[field] is not None},
                **({"commit": version.commit} if version.commit else {}),
            }
            for side, version, job in zip(SIDES, versions, jobs, strict=True)
        ],
        "parameter": new,
        "sizes": jobs[0]["axis"]["sizes"] if new else [],
        "repeats": repeats,
    }


def queue_of(target: str) -> str:
    """Return the name of a target's job queue, as Terraform makes it."""
    return f"{INSTALLATION}-{target.replace('.', '-')}"


def definition_of(own_job: str, target: str) -> str:
    """Return the name of an own job's definition for a target, as Terraform makes it."""
    return f"{INSTALLATION}_job_{own_job}_{target.replace('.', '-')}"
