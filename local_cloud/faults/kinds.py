"""The kinds of faults that can be injected, and the request fields for each."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PositiveSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Times = Annotated[int, Field(ge=1)]


class Kind(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    seconds: PositiveSeconds | None = None  # duration; None: until it is deleted


class CallFault(Kind):
    """A fault affecting calls to the given services, operations and resources; empty means all.

    Services and operations are named as in IAM, such as `batch` and `SubmitJob`. Resources are
    ARNs, matched as globs; a call on an S3 object has the object's ARN.
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
    """Rejects a share of the calls with the service's throttling error.

    The seed and the order of the calls decide which ones are rejected.
    """

    kind: Literal["throttle"]
    share: float = Field(gt=0, le=1)
    seed: int = 0


class Outage(CallFault):
    """Answers calls with 503, or closes their connections without responding."""

    kind: Literal["outage"]
    seconds: PositiveSeconds
    how: Literal["unavailable", "drop"] = "unavailable"


class RefusedWrites(CallFault):
    """Makes S3 reject writes with SlowDown or AccessDenied."""

    kind: Literal["refused_writes"]
    services: tuple[Literal["s3"], ...] = ("s3",)
    code: Literal["SlowDown", "AccessDenied"] = "SlowDown"


class ExpiredCredentials(CallFault):
    """Rejects calls as if the caller's temporary credentials had expired."""

    kind: Literal["expired_credentials"]


class LateAnswer(CallFault):
    """Delays responses; the calls themselves take effect immediately."""

    kind: Literal["late_answer"]
    delay_seconds: PositiveSeconds


class SpotInterruption(Kind):
    """Interrupts attempts as Spot does: with a notice in the metadata, SIGTERM, then SIGKILL.

    Affects jobs whose name matches a glob, in one compute environment or in all. It interrupts both
    running attempts and those that start while the fault is active.
    """

    kind: Literal["spot_interruption"]
    job_name: str = "*"
    compute_environment: str | None = None
    after_seconds: Seconds = 0.0  # from the attempt's start
    notice_seconds: Seconds = 120.0  # from the notice to SIGTERM; AWS gives two minutes
    shutdown_seconds: Seconds = 90.0  # from SIGTERM to SIGKILL, as our hosts set it for Docker
    times: Times | None = None  # number of attempts to interrupt; None for all

    def covers(self, job_name: str, compute_environment: str) -> bool:
        is_there = self.compute_environment in (None, compute_environment)
        return is_there and fnmatchcase(job_name, self.job_name)


class InvalidEnvironment(Kind):
    """Makes compute environments, including new ones, INVALID so that no job starts in them."""

    kind: Literal["invalid_environment"]
    compute_environment: str = Field(min_length=1)  # a glob of names
    reason: str = Field(default="CLIENT_ERROR - The instance profile does not exist", min_length=1)

    def covers(self, name: str) -> bool:
        return fnmatchcase(name, self.compute_environment)


class NoCapacity(Kind):
    """Leaves compute environments without EC2 capacity; jobs wait without a status reason."""

    kind: Literal["no_capacity"]
    compute_environment: str = "*"  # a glob of names

    def covers(self, name: str) -> bool:
        return fnmatchcase(name, self.compute_environment)


class VcpuQuota(Kind):
    """Sets those EC2 vCPU quotas whose code matches to `vcpus`; quotas are not enforced."""

    kind: Literal["vcpu_quota"]
    code: str = "*"  # a glob
    vcpus: int = Field(default=0, ge=0)

    def covers(self, code: str) -> bool:
        return fnmatchcase(code, self.code)


class MissingImage(Kind):
    """Keeps an image's containers from starting, as if the registry didn't have the image."""

    kind: Literal["missing_image"]
    image: str


class UnstartedNode(Kind):
    """Keeps one child node of a multi-node job from starting, so the other nodes wait for it."""

    kind: Literal["unstarted_node"]
    job_name: str = "*"  # a glob
    node: int = Field(ge=0)  # its index; the main node always starts

    def covers(self, job_name: str, node: int) -> bool:
        return node == self.node and fnmatchcase(job_name, self.job_name)


class JobFault(Kind):
    """A fault affecting jobs whose names match a glob."""

    job_name: str = "*"

    def covers(self, job_name: str) -> bool:
        return fnmatchcase(job_name, self.job_name)


class LostLogLines(JobFault):
    """Drops log lines from jobs that start during the fault, as a log driver can."""

    kind: Literal["lost_log_lines"]
    first: int = Field(default=0, ge=0)  # number of lines at the beginning of the log
    last: int = Field(default=0, ge=0)  # number of lines at its end


class StopBeforeStart(JobFault):
    """Reports attempts that end during the fault as having stopped before they started."""

    kind: Literal["stop_before_start"]
    early_seconds: PositiveSeconds = 1.0  # from the reported stop to the start


class FileSystemFault(Kind):
    """A fault affecting file systems, including new ones, whose ids match a glob."""

    file_system: str = "*"

    def covers(self, file_system_id: str) -> bool:
        return fnmatchcase(file_system_id, self.file_system)


class FileSystemCreationFails(Kind):
    """Makes file system creation fail: file systems created during the fault become FAILED."""

    kind: Literal["file_system_creation_fails"]
    reason: str = Field(
        default="Amazon FSx is unable to create the file system: insufficient capacity in the "
        "Availability Zone",
        min_length=1,
    )


class FileSystemDeletionRefused(FileSystemFault):
    """Rejects DeleteFileSystem with BadRequest, as FSx does during a data repository task."""

    kind: Literal["file_system_deletion_refused"]
    times: Times | None = 1  # number of calls to reject; None for all


class FileSystemDeletionSlow(FileSystemFault):
    """Keeps file systems that are deleted during the fault in DELETING for longer."""

    kind: Literal["file_system_deletion_slow"]
    delay_seconds: PositiveSeconds


class FileSystemFull(FileSystemFault):
    """Makes writes to file systems fail with ENOSPC. Requires root on the local cloud's machine."""

    kind: Literal["file_system_full"]
    free_mib: int = Field(default=0, ge=0)  # free space left


class AssociationMisconfigured(FileSystemFault):
    """Makes associations with S3 MISCONFIGURED so that they import nothing."""

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
