"""The sides of a comparison, each with an existing queue and job definition from the form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError, model_validator

from batchmark.core.config import Target
from batchmark.core.errors import PlanError, did_you_mean
from batchmark.core.own_jobs import MOST_SIDES, JobName, Versioned
from batchmark.core.prices import PriceTable
from batchmark.core.record import Record, first_problem
from batchmark.core.run import PlannedJob, RunPlan
from batchmark_job.result.metric import FILE_VARIABLE
from batchmark_job.result.values import IN_A_LINE, Line, PositiveCount

OUR_VARIABLES = ("AWS_BATCH", "BATCHMARK_")  # prefixes of what Batch and we set

Word = Annotated[str, Field(min_length=1)]
Name = Annotated[Word, IN_A_LINE]


class Side(Versioned):
    """One side, as entered in the form; None means to use the job definition's value, if any."""

    # A value of a variable may be a secret.
    model_config = ConfigDict(coerce_numbers_to_str=True, hide_input_in_errors=True)

    name: JobName
    job_queue: Name = Field(description="name or ARN")
    job_definition: Name = Field(
        description="name or ARN; the latest revision if none is specified"
    )
    parameters: dict[Line, str] = Field(
        default={}, description="values of the command's placeholders"
    )
    environment: dict[Line, str] = Field(
        default={}, description="environment variables in addition to the definition's"
    )
    command: tuple[str, ...] | None = None
    vcpus: PositiveCount | None = None
    memory_mib: PositiveCount | None = Field(default=None, ge=4)
    gpus: PositiveCount | None = None
    timeout_seconds: PositiveCount | None = Field(default=None, ge=60)
    check: Word | None = Field(
        default=None, description="shell command that exits with 0 if the result is right"
    )
    output: Name | None = Field(default=None, description="path of the file to check by SHA-256")
    output_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    shell: bool = True

    @model_validator(mode="after")
    def _can_be_checked(self) -> Side:
        if not self.shell and (self.check or self.output):
            raise ValueError(
                "check and output need shell: true, as the shell wrapper evaluates them"
            )
        if self.output_sha256 and not self.output:
            raise ValueError("output_sha256 was specified without an output")
        return self

    @model_validator(mode="after")
    def _sets_its_own_variables(self) -> Side:
        for name in self.environment:
            if name.startswith(OUR_VARIABLES) and name != FILE_VARIABLE:
                raise ValueError(
                    f"environment contains {name}, which Batchmark sets itself: omit it"
                )
        return self


class FoundSide(Record):
    """A side with its details from Batch and EC2."""

    side: Side
    target: Target = Field(description="its instance type is the smallest one that fits the job")
    command: tuple[str, ...] = Field(
        description="may contain placeholders; empty if it is the image's default command"
    )
    parameters: dict[str, str] = Field(
        description="the definition's defaults, overridden by the side's parameters"
    )
    types: tuple[str, ...] = Field(description="instance types that its job may run on")
    notes: tuple[str, ...] = ()

    def at_worst(self, prices: PriceTable) -> FoundSide:
        """Return the side on its costliest instance type, or on an unpriced one if it has any."""
        unpriced = [name for name in self.types if name not in prices.on_demand]
        dearest = unpriced[0] if unpriced else max(self.types, key=prices.on_demand.__getitem__)
        target = self.target.model_copy(update={"instance_type": dearest})
        return self.model_copy(update={"target": target})


def with_environments(plan: RunPlan, params: Mapping[str, Any]) -> RunPlan:
    """Add the sides' environment variables, which only the form stores, to a comparison's plan."""
    if not plan.sides:
        return plan
    environments = {side.name: side.environment for side in parse_sides(params["sides"])}

    def filled(job: PlannedJob) -> PlannedJob:
        update = {"environment": environments[job.target]}
        return job.model_copy(
            update={"own_job": job.own_job and job.own_job.model_copy(update=update)}
        )

    return plan.model_copy(update={"jobs": tuple(map(filled, plan.jobs))})


def parse_sides(given: Sequence[Mapping[str, Any]], targets: Collection[str] = ()) -> list[Side]:
    """Parse the form's sides, whose names must differ from the installation's `targets`.

    Raises:
        PlanError: a field is unknown, missing or invalid, or a side's name is taken.
    """
    if not 1 <= len(given) <= MOST_SIDES:
        raise PlanError(f"sides contains {len(given)} objects: specify 1 to {MOST_SIDES}")
    sides = [_side(number, each) for number, each in enumerate(given, start=1)]
    ((name, count),) = Counter(side.name for side in sides).most_common(1)
    if count > 1:
        raise PlanError(f"{count} sides are named {name!r}: give each a unique name")
    if taken := [side.name for side in sides if side.name in targets]:
        raise PlanError(f"side {taken[0]!r} has the name of a target: give it another name")
    return sides


def _side(number: int, given: Mapping[str, Any]) -> Side:
    if not isinstance(given, Mapping):
        raise PlanError(
            f"side {number} is a {type(given).__name__}: use an object with fields such as name "
            "and job_queue"
        )
    known = list(Side.model_fields)
    for field in given:
        if field not in known:
            raise PlanError(
                f"side {number} has an unknown field {field!r}{did_you_mean(str(field), known)}"
            )
    try:
        return Side.model_validate(dict(given))
    except ValidationError as error:
        raise PlanError(f"side {number}: {first_problem(error)}{_seen(error)}") from error


def _seen(error: ValidationError) -> str:
    """Return the invalid value for a message; empty if it might reveal environment variables."""
    first = error.errors()[0]
    value = first["input"]
    hidden = isinstance(value, (Mapping, Sequence)) and not isinstance(value, str)
    return "" if hidden or first["loc"][:1] == ("environment",) else f", got {value!r:.200}"
