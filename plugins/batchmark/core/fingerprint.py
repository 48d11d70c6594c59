"""The machine properties that determine speed and noise, as reported by jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from batchmark.core.record import Record
from batchmark_job.result.document import Device, ResultDocument


class Fingerprint(Record):
    """The properties that must match for a calibration to apply.

    The image digest is not included: a rebuilt image with the same torch has the same noise, and
    each row's library is checked against the calibrated row's `implementations`.
    """

    device: Device
    instance_type: str | None
    cpu_model: str
    compute_threads: int
    gpu_model: str | None
    driver_major: str | None
    torch_version: str

    @classmethod
    def of(cls, document: ResultDocument) -> Self:
        return cls.of_row({"actual_device": document.actual_device, **dict(document.environment)})

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Self:
        """Build the fingerprint of a history row."""
        driver = row["driver_version"]
        return cls(
            device=row["actual_device"],
            instance_type=row["instance_type"],
            cpu_model=row["cpu_model"],
            compute_threads=row["compute_threads"],
            gpu_model=row["gpu_model"],
            driver_major=driver and driver.partition(".")[0],
            torch_version=row["torch_version"],
        )

    def named(self) -> dict[str, str | int | None]:
        """Return the fingerprint's values by display name."""
        return {
            "instance type": self.instance_type,
            "CPU model": self.cpu_model,
            "compute threads": self.compute_threads,
            "GPU model": self.gpu_model,
            "driver major": self.driver_major,
            "torch": self.torch_version,
            "device": str(self.device),
        }

    def differences(self, now: Fingerprint) -> str:
        """Describe what changed from this fingerprint to `now`, with the old and new values."""
        then = self.named()
        return ", ".join(
            f"{name} was {then[name] or 'none'} and is now {value or 'none'}"
            for name, value in now.named().items()
            if value != then[name]
        )
