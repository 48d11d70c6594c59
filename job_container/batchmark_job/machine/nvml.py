"""Reads NVML in this package's units; values that the GPU or driver lacks are None.

Every function raises an Exception if NVML is missing or can't reach a driver.

Source: NVML API reference, https://docs.nvidia.com/deploy/nvml-api/.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pynvml

# Named as in nvidia-smi --query-gpu=clocks_event_reasons.…
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
# Not a disturbance: a large product reaches many GPUs' power cap by itself, and runs at that rate.
# The remaining reasons are a user's settings, or an idle GPU.
SLOWDOWNS = DISTURBANCES | {"sw_power_cap"}


class Gpu:
    """One GPU, identified by its NVML handle; `nvml` is the module pynvml.

    Methods return None for values that are not supported or not permitted, and raise NVMLError for
    any other failure.
    """

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        self._unavailable = {
            nvml.NVML_ERROR_NOT_SUPPORTED,
            nvml.NVML_ERROR_NO_PERMISSION,
            nvml.NVML_ERROR_FUNCTION_NOT_FOUND,  # the driver is older than the function
            nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
            nvml.NVML_ERROR_DEPRECATED,
            nvml.NVML_ERROR_INVALID_ARGUMENT,  # for the handle of a MIG slice
        }
        self._reasons = {
            name: getattr(nvml, f"nvmlClocksEventReason{reason}")
            for name, reason in EVENT_REASONS.items()
        }

    def utilization_percent(self) -> float | None:
        """Return the percentage of the last sample period (1/6 to 1 s) in which a kernel ran."""
        rates = self._ask(self._nvml.nvmlDeviceGetUtilizationRates)
        return None if rates is None else float(rates.gpu)

    def memory_used_bytes(self) -> int | None:
        """Return the memory used by all processes and the driver."""
        memory = self._ask(self._nvml.nvmlDeviceGetMemoryInfo)
        return None if memory is None else int(memory.used)

    def power_watts(self) -> float | None:
        return self._scaled(1e-3, self._nvml.nvmlDeviceGetPowerUsage)

    def clock_hz(self) -> float | None:
        """Return the streaming multiprocessors' clock."""
        return self._scaled(1e6, self._nvml.nvmlDeviceGetClockInfo, self._nvml.NVML_CLOCK_SM)

    def application_clock_hz(self) -> float | None:
        """Return the clock set for running kernels; the GPU can still run slower or faster."""
        nvml = self._nvml
        return self._scaled(1e6, nvml.nvmlDeviceGetApplicationsClock, nvml.NVML_CLOCK_GRAPHICS)

    def memory_clock_hz(self) -> float | None:
        return self._scaled(1e6, self._nvml.nvmlDeviceGetClockInfo, self._nvml.NVML_CLOCK_MEM)

    def temperature_celsius(self) -> float | None:
        nvml = self._nvml
        # The first is new in CUDA 13; the second is removed in CUDA 14.
        for function in (nvml.nvmlDeviceGetTemperatureV, nvml.nvmlDeviceGetTemperature):
            celsius = self._scaled(1, function, nvml.NVML_TEMPERATURE_GPU)
            if celsius is not None:
                return celsius
        return None

    def mig_enabled(self) -> bool | None:
        """Return whether MIG is on, or None if the GPU doesn't support it."""
        mode = self._ask(self._nvml.nvmlDeviceGetMigMode)
        return None if mode is None else bool(mode[0] == self._nvml.NVML_DEVICE_MIG_ENABLE)

    def energy_joules(self) -> float | None:
        """Return the energy used since the driver was loaded; not available on all GPUs."""
        return self._scaled(1e-3, self._nvml.nvmlDeviceGetTotalEnergyConsumption)

    def event_reasons(self) -> tuple[str, ...] | None:
        """Return what is limiting the clocks, as keys of EVENT_REASONS; other reasons are left out.

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
    """An NVIDIA driver: its version, the CUDA version it supports, and its number of GPUs."""

    version: str
    cuda: tuple[int, int] | None  # None if its CUDA library is missing
    gpus: int


def driver() -> Driver:
    """Return this machine's or container's driver, found without torch."""
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
    """Return the GPUs or MIG slices that torch sees, in torch's order.

    They are looked up by UUID, because NVML's indexes differ if CUDA_VISIBLE_DEVICES is set. Raises
    NVMLError if NVML does not know one of them.
    """
    import torch

    properties = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return [find_gpu(str(device.uuid)) for device in properties]


def all_gpus() -> list[Gpu]:
    """Return this machine's or container's GPUs, found without torch."""
    pynvml.nvmlInit()
    count = int(pynvml.nvmlDeviceGetCount())
    return [Gpu(pynvml, pynvml.nvmlDeviceGetHandleByIndex(index)) for index in range(count)]


def find_gpu(uuid: str) -> Gpu:
    """Find a GPU or MIG slice without torch; raise NVMLError if none has this UUID."""
    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    except pynvml.NVMLError:
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"MIG-{uuid}")
    return Gpu(pynvml, handle)
