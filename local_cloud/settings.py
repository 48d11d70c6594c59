"""The local cloud's settings, taken from its command line."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

JobsAs = Literal["processes", "containers"]


@dataclass(frozen=True)
class Settings:
    """Settings for how the machine runs jobs and which resources it offers them.

    `job_endpoint_url` is the URL at which jobs reach the server. `job_network` is the Docker
    network that containers join, or None for the host's network. Requests must be signed with
    `secret`, which clients find in the file `credentials`, unless `secret` is None.
    Creating or deleting a file system takes `file_system_seconds`. Jobs that run as processes start
    in their job definition's folder in `definition_dirs`, by name, or else in `job_dir`; each in
    its own copy if `copy_job_dir` is set.
    """

    endpoint_url: str
    job_endpoint_url: str
    gpus: int
    vcpus: int
    memory_mib: int
    job_dir: Path
    definition_dirs: Mapping[str, Path] = field(default_factory=dict)
    copy_job_dir: bool = False
    secret: str | None = field(default=None, repr=False)
    credentials: Path | None = None
    jobs: JobsAs = "processes"
    job_network: str | None = None
    stop_grace_seconds: float = 30.0
    allow_short_limits: bool = False
    allow_host_access: bool = False
    file_system_seconds: float = 2.0

    @property
    def refuses_host_access(self) -> bool:
        """Whether to refuse containers that could gain root on the Docker host."""
        return self.jobs == "containers" and not self.allow_host_access
