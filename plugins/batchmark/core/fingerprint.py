"""What decides how fast and how steady a machine is, as seen by its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from batchmark.core.record import Record
from batchmark_job.result.document import Device, ResultDocument


class Fingerprint(Record):
    """What must agree for a calibration to hold.

    The image's digest is not part of it: a rebuilt image with the same torch is as steady, and a
    row's library is checked against its `implementations`.
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
        """That of a row of the history."""
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
        """The values by the names that messages give them."""
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
        """What has changed since, with both values; empty where nothing has."""
        then = self.named()
        return ", ".join(
            f"{name} was {then[name] or 'none'} and is {value or 'none'}"
            for name, value in now.named().items()
            if value != then[name]
        )
