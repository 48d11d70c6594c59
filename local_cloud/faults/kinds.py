"""The kinds of fault, and their fields in a request."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PositiveSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Times = Annotated[int, Field(ge=1)]


class Kind(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    seconds: PositiveSeconds | None = None  # the duration; None: until it is deleted


class CallFault(Kind):
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


class SpotInterruption(Kind):
    """Attempts lose their host: Spot's notice in its metadata, SIGTERM, SIGKILL.

    Strikes jobs by name (a glob), in all compute environments or in one: attempts that run now,
    and those that start while the fault lasts.
    """

    kind: Literal["spot_interruption"]
    job_name: str = "*"
    compute_environment: str | None = None
    after_seconds: Seconds = 0.0  # from the attempt's start
    notice_seconds: Seconds = 120.0  # from the notice to SIGTERM; AWS gives two minutes
    shutdown_seconds: Seconds = 90.0  # from SIGTERM to SIGKILL; as our hosts set it for Docker
    times: Times | None = None  # number of attempts to interrupt; None for all

    def covers(self, job_name: str, compute_environment: str) -> bool:
        is_there = self.compute_environment in (None, compute_environment)
        return is_there and fnmatchcase(job_name, self.job_name)


class InvalidEnvironment(Kind):
    """Compute environments are INVALID, those created meanwhile, too: no job starts in them."""

    kind: Literal["invalid_environment"]
    compute_environment: str = Field(min_length=1)  # a glob of names
    reason: str = Field(default="CLIENT_ERROR - The instance profile does not exist", min_length=1)

    def covers(self, name: str) -> bool:
        return fnmatchcase(name, self.compute_environment)


class NoCapacity(Kind):
    """EC2 has no instance for these compute environments: jobs wait, and are told no reason."""

    kind: Literal["no_capacity"]
    compute_environment: str = "*"  # a glob of names

    def covers(self, name: str) -> bool:
        return fnmatchcase(name, self.compute_environment)


class VcpuQuota(Kind):
    """EC2's quotas of vCPUs have this value. They are asked for, and limit nothing here."""

    kind: Literal["vcpu_quota"]
    code: str = "*"  # a glob
    vcpus: int = Field(default=0, ge=0)

    def covers(self, code: str) -> bool:
        return fnmatchcase(code, self.code)


class MissingImage(Kind):
    """No container of this image can start: its registry does not have the image."""

    kind: Literal["missing_image"]
    image: str


class UnstartedNode(Kind):
    """A child node of multi-node jobs never starts, so that the others wait for it."""

    kind: Literal["unstarted_node"]
    job_name: str = "*"  # a glob
    node: int = Field(ge=0)  # its index; the main node always starts

    def covers(self, job_name: str, node: int) -> bool:
        return node == self.node and fnmatchcase(job_name, self.job_name)


class JobFault(Kind):
    """Strikes jobs by name (a glob)."""

    job_name: str = "*"

    def covers(self, job_name: str) -> bool:
        return fnmatchcase(job_name, self.job_name)


class LostLogLines(JobFault):
    """Lines of jobs that start meanwhile never reach CloudWatch: their log driver dropped them."""

    kind: Literal["lost_log_lines"]
    first: int = Field(default=0, ge=0)  # how many at the beginning of the log
    last: int = Field(default=0, ge=0)  # and at its end


class StopBeforeStart(JobFault):
    """Attempts that end meanwhile are described as stopped before they started."""

    kind: Literal["stop_before_start"]
    early_seconds: PositiveSeconds = 1.0  # from the stop as it is told to the start


class FileSystemFault(Kind):
    """Strikes file systems by their ids (a glob), those that come meanwhile, too."""

    file_system: str = "*"

    def covers(self, file_system_id: str) -> bool:
        return fnmatchcase(file_system_id, self.file_system)


class FileSystemCreationFails(Kind):
    """File systems whose creation is asked for meanwhile end FAILED."""

    kind: Literal["file_system_creation_fails"]
    reason: str = Field(
        default="Amazon FSx is unable to create the file system: insufficient capacity in the "
        "Availability Zone",
        min_length=1,
    )


class FileSystemDeletionRefused(FileSystemFault):
    """DeleteFileSystem is answered with BadRequest, as while a data repository task goes on."""

    kind: Literal["file_system_deletion_refused"]
    times: Times | None = 1  # number of calls to refuse; None for all


class FileSystemDeletionSlow(FileSystemFault):
    """File systems whose deletion begins meanwhile stay DELETING for longer."""

    kind: Literal["file_system_deletion_slow"]
    delay_seconds: PositiveSeconds


class FileSystemFull(FileSystemFault):
    """Whoever writes to a file system gets ENOSPC. Needs root on the local cloud's machine."""

    kind: Literal["file_system_full"]
    free_mib: int = Field(default=0, ge=0)  # the room that is left


class AssociationMisconfigured(FileSystemFault):
    """Associations with S3 are MISCONFIGURED, and import nothing."""

    kind: Literal["association_misconfigured"]
    reason: str = Field(
        default="Amazon FSx is unable to validate access to the S3 bucket", min_length=1
    )


Fault = (
    Throttle
    | Outage
    | RefusedWrites
    | ExpiredCredentials
    | LateAnswer
    | SpotInterruption
    | InvalidEnvironment
    | NoCapacity
    | VcpuQuota
    | MissingImage
    | UnstartedNode
    | LostLogLines
    | StopBeforeStart
    | FileSystemCreationFails
    | FileSystemDeletionRefused
    | FileSystemDeletionSlow
    | FileSystemFull
    | AssociationMisconfigured
)
FAULT: TypeAdapter[Fault] = TypeAdapter(Annotated[Fault, Field(discriminator="kind")])
