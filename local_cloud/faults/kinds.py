"""The kinds of fault, and their fields in a request."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PositiveSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Kind(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    seconds: PositiveSeconds | None = Field(
        default=None, description="the duration; null: until it is deleted"
    )


class CallFault(_Kind):
    """Strikes calls of these services, operations and ARNs (globs); empty means all.

    Names are IAM's: service `batch`, operation `SubmitJob`. For a call about an S3 object, its ARN
    counts.
    """

    services: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()

    def covers(self, service: str | None, operation: str | None, resources: list[str]) -> bool:
        return (
            (not self.services or service in self.services)
            and (not self.operations or operation in self.operations)
            and (
                not self.resources
                or any(fnmatchcase(arn, glob) for arn in resources for glob in self.resources)
            )
        )


class Throttle(CallFault):
    """A share of the calls is refused with the service's throttling error.

    The seed and the order of calls decide which.
    """

    kind: Literal["throttle"]
    share: float = Field(gt=0, le=1)
    seed: int = 0


class Outage(CallFault):
    """Calls are answered with 503, or their connections are closed without an answer."""

    kind: Literal["outage"]
    seconds: PositiveSeconds
    how: Literal["unavailable", "drop"] = "unavailable"


class RefusedWrites(CallFault):
    """S3 refuses writes, with SlowDown or AccessDenied."""

    kind: Literal["refused_writes"]
    services: tuple[Literal["s3"], ...] = ("s3",)
    code: Literal["SlowDown", "AccessDenied"] = "SlowDown"


class ExpiredCredentials(CallFault):
    """Calls are refused as those of a role whose temporary credentials were not renewed in time."""

    kind: Literal["expired_credentials"]


class LateAnswer(CallFault):
    """Calls take effect at once, but their answers are delayed."""

    kind: Literal["late_answer"]
    delay_seconds: PositiveSeconds


class SpotInterruption(_Kind):
    """Attempts lose their host: Spot's notice in its metadata, SIGTERM, SIGKILL.

    Strikes jobs by name (a glob), in all compute environments or in one: attempts that run now,
    and those that start while the fault lasts.
    """

    kind: Literal["spot_interruption"]
    job_name: str = "*"
    compute_environment: str | None = None
    after_seconds: Seconds = Field(default=0.0, description="from the attempt's start")
    notice_seconds: Seconds = Field(
        default=120.0, description="from the notice to SIGTERM; AWS gives two minutes"
    )
    shutdown_seconds: Seconds = Field(
        default=90.0, description="from SIGTERM to SIGKILL; as our hosts set it for Docker"
    )
    times: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="number of attempts to interrupt; null for all"
    )


class InvalidEnvironment(_Kind):
    """Compute environments are INVALID, those created meanwhile, too: no job starts in them."""

    kind: Literal["invalid_environment"]
    compute_environment: str = Field(min_length=1, description="a glob of names")
    reason: str = Field(default="CLIENT_ERROR - The instance profile does not exist", min_length=1)


class MissingImage(_Kind):
    """No container of this image can start: its registry does not have the image."""

    kind: Literal["missing_image"]
    image: str


Fault = (
    Throttle
    | Outage
    | RefusedWrites
    | ExpiredCredentials
    | LateAnswer
    | SpotInterruption
    | InvalidEnvironment
    | MissingImage
)
FAULT: TypeAdapter[Fault] = TypeAdapter(Annotated[Fault, Field(discriminator="kind")])
