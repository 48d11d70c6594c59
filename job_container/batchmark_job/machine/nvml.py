"""What NVML says of a GPU, in this package's units; None where GPU or driver do not say.

Each function raises an Exception where there is no NVML, or it can't reach a driver.

Source: NVML API reference, https://docs.nvidia.com/deploy/nvml-api/.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pynvml

# As nvidia-smi --query-gpu=clocks_event_reasons.… names them.
EVENT_REASONS = {
    "gpu_idle": "GpuIdle",
    "applications_clocks_setting": "ApplicationsClocksSetting",
    "sw_power_cap": "SwPowerCap",
    "hw_slowdown": "HwSlowdown",
    "sync_boost": "SyncBoost",
    "sw_thermal_slowdown": "SwThermalSlowdown",
    "hw_thermal_slowdown": "HwThermalSlowdown",
    "hw_power_brake_slowdown": "HwPowerBrakeSlowdown",
    "display_clocks_setting": "DisplayClockSetting",
}
DISTURBANCES = frozenset(name for name in EVENT_REASONS if name.endswith("slowdown"))
# A large product reaches the power cap of many GPUs by itself: what it runs at then is its rate.
# All others are a user's settings, or a GPU with nothing to do.
SLOWDOWNS = DISTURBANCES | {"sw_power_cap"}


class Gpu:
    """One GPU by its NVML handle; `nvml` is the module pynvml.

    Every method raises NVMLError, but gives None where a value is not supported or not permitted.
    """

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        self._unavailable = {
            nvml.NVML_ERROR_NOT_SUPPORTED,
            nvml.NVML_ERROR_NO_PERMISSION,
            nvml.NVML_ERROR_FUNCTION_NOT_FOUND,  # in a driver older than the function
            nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
            nvml.NVML_ERROR_DEPRECATED,
            nvml.NVML_ERROR_INVALID_ARGUMENT,  # for the handle of a part of a GPU
        }
        self._reasons = {
            name: getattr(nvml, f"nvmlClocksEventReason{reason}")
            for name, reason in EVENT_REASONS.items()
        }

    def utilization_percent(self) -> float | None:
        """Share of the last sample period, 1/6 to 1 s, in which a kernel ran."""
        rates = self._ask(self._nvml.nvmlDeviceGetUtilizationRates)
        return None if rates is None else float(rates.gpu)

    def memory_used_bytes(self) -> int | None:
        """Of all processes and the driver."""
        memory = self._ask(self._nvml.nvmlDeviceGetMemoryInfo)
        return None if memory is None else int(memory.used)

    def power_watts(self) -> float | None:
        return self._scaled(1e-3, self._nvml.nvmlDeviceGetPowerUsage)

    def clock_hz(self) -> float | None:
        """Of the streaming multiprocessors."""
        return self._scaled(1e6, self._nvml.nvmlDeviceGetClockInfo, self._nvml.NVML_CLOCK_SM)

    def application_clock_hz(self) -> float | None:
        """That the driver was told to run kernels at; a GPU may still run slower, or boost."""
        nvml = self._nvml
        return self._scaled(1e6, nvml.nvmlDeviceGetApplicationsClock, nvml.NVML_CLOCK_GRAPHICS)

    def memory_clock_hz(self) -> float | None:
        return self._scaled(1e6, self._nvml.nvmlDeviceGetClockInfo, self._nvml.NVML_CLOCK_MEM)

    def temperature_celsius(self) -> float | None:
        nvml = self._nvml
        # The first is new with CUDA 13, the second goes with CUDA 14.
        for function in (nvml.nvmlDeviceGetTemperatureV, nvml.nvmlDeviceGetTemperature):
            celsius = self._scaled(1, function, nvml.NVML_TEMPERATURE_GPU)
            if celsius is not None:
                return celsius
        return None

    def mig_enabled(self) -> bool | None:
        """Whether it is split into parts (MIG); None where it can't be."""
        mode = self._ask(self._nvml.nvmlDeviceGetMigMode)
        return None if mode is None else bool(mode[0] == self._nvml.NVML_DEVICE_MIG_ENABLE)

    def energy_joules(self) -> float | None:
        """Running total since the driver was loaded; not on all GPUs."""
        return self._scaled(1e-3, self._nvml.nvmlDeviceGetTotalEnergyConsumption)

    def event_reasons(self) -> tuple[str, ...] | None:
        """Why the clocks are what they are, as keys of EVENT_REASONS; others are left out.

        Needs driver 535 or newer.
        """
        bits = self._ask(self._nvml.nvmlDeviceGetCurrentClocksEventReasons)
        if bits is None:
            return None
        return tuple(name for name, bit in self._reasons.items() if bits & bit)

    def _scaled(self, factor: float, function: Callable[..., Any], *arguments: Any) -> float | None:
        value = self._ask(function, *arguments)
        return None if value is None else value * factor

    def _ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(self._handle, *arguments)
        except self._nvml.NVMLError as error:
            if error.value in self._unavailable:
                return None
            raise


class Driver(NamedTuple):
    """An NVIDIA driver: its version, the CUDA version it supports, and the number of its GPUs."""

    version: str
    cuda: tuple[int, int] | None  # None where its CUDA library is not there
    gpus: int


def driver() -> Driver:
    """The driver of this machine or container, found without torch."""
    pynvml.nvmlInit()
    try:
        cuda = pynvml.nvmlSystemGetCudaDriverVersion_v2()
    except pynvml.NVMLError:
        cuda = None
    return Driver(
        version=str(pynvml.nvmlSystemGetDriverVersion()),
        cuda=None if cuda is None else (cuda // 1000, cuda % 1000 // 10),
        gpus=int(pynvml.nvmlDeviceGetCount()),
    )


def visible_gpus() -> list[Gpu]:
    """The GPUs, or parts of one (MIG), that torch sees, in torch's order.

    By UUID, because NVML's numbers differ where CUDA_VISIBLE_DEVICES is set. Raises an NVMLError
    where NVML does not know one of them.
    """
    import torch

    properties = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return [find_gpu(str(device.uuid)) for device in properties]


def all_gpus() -> list[Gpu]:
    """The GPUs of this machine or container, found without torch."""
    pynvml.nvmlInit()
    count = int(pynvml.nvmlDeviceGetCount())
    return [Gpu(pynvml, pynvml.nvmlDeviceGetHandleByIndex(index)) for index in range(count)]


def find_gpu(uuid: str) -> Gpu:
    """A GPU, or a part of one (MIG), found without torch; an NVMLError where none has this UUID."""
    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    except pynvml.NVMLError:
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"MIG-{uuid}")
    return Gpu(pynvml, handle)
