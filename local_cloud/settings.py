"""What one local cloud was started with."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """The machine's declared resources and the rules its jobs run under."""

    endpoint_url: str
    gpus: int
    vcpus: int
    memory_mib: int
    job_dir: Path
    stop_grace_seconds: float = 30.0
    allow_short_limits: bool = False
