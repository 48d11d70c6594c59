"""What a node says of itself when it comes."""

from __future__ import annotations

from batchmark_job.machine.inventory import Machine
from batchmark_job.result.values import Model


class Greeting(Model):
    index: int
    job: str  # whose node it is
    address: str  # its own
    main_address: str  # at which it found the main node
    device: str
    device_model: str
    gpus: int
    instance_type: str | None

    @classmethod
    def of(
        cls, index: int, job: str, address: str, main_address: str, machine: Machine
    ) -> Greeting:
        found = machine.environment
        on_gpu = machine.device.value == "cuda"
        return cls(
            index=index,
            job=job,
            address=address,
            main_address=main_address,
            device=machine.device.value,
            device_model=(found.gpu_model if on_gpu else None) or found.cpu_model,
            gpus=found.gpu_count if on_gpu else 0,
            instance_type=found.instance_type,
        )
