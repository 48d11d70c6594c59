"""pynvml without a driver: its constants and errors, with a test's answers."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from unittest import mock

import pynvml
import torch


@dataclass
class Card:
    """NVML's answers for one GPU, in NVML's units; None means "not supported"."""

    utilization: int | None = 90
    memory_used: int | None = 6_000_000_000
    milliwatts: int | None = 150_000
    sm_megahertz: int | None = 1_710
    memory_megahertz: int | None = 6_251
    celsius: int | None = 41
    millijoules: int | None = 2_500
    reasons: int | None = 0
    application_megahertz: int | None = 1_695
    mig_modes: tuple[int, int] | None = None  # now, and after the next reset
    error: int = pynvml.NVML_ERROR_NOT_SUPPORTED

    def answer(self, value):
        if value is None:
            raise pynvml.NVMLError(self.error)
        return value


class Nvml:
    """The functions this project calls; everything else is pynvml's own."""

    version, cuda = "580.95.05", 13_000  # of the driver; it may lack its CUDA library
    error = None  # in the place of an answer at the start

    def __init__(self, **cards):
        self.cards = {uuid.replace("_", "-"): card for uuid, card in cards.items()}

    def __getattr__(self, name):
        return getattr(pynvml, name)

    def nvmlInit(self):  # noqa: N802
        if self.error is not None:
            raise pynvml.NVMLError(self.error)

    def nvmlSystemGetDriverVersion(self):  # noqa: N802
        return self.version

    def nvmlSystemGetCudaDriverVersion_v2(self):  # noqa: N802
        if self.cuda is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
        return self.cuda

    def nvmlDeviceGetCount(self):  # noqa: N802
        return len(self.cards)

    def nvmlDeviceGetHandleByUUID(self, uuid):  # noqa: N802
        if uuid not in self.cards:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return self.cards[uuid]

    def nvmlDeviceGetUtilizationRates(self, card):  # noqa: N802
        return SimpleNamespace(gpu=card.answer(card.utilization), memory=1)

    def nvmlDeviceGetMemoryInfo(self, card):  # noqa: N802
        return SimpleNamespace(used=card.answer(card.memory_used), total=2**40)

    def nvmlDeviceGetPowerUsage(self, card):  # noqa: N802
        return card.answer(card.milliwatts)

    def nvmlDeviceGetClockInfo(self, card, clock):  # noqa: N802
        clocks = {
            pynvml.NVML_CLOCK_SM: card.sm_megahertz,
            pynvml.NVML_CLOCK_MEM: card.memory_megahertz,
        }
        return card.answer(clocks[clock])

    def nvmlDeviceGetApplicationsClock(self, card, clock):  # noqa: N802
        if clock != pynvml.NVML_CLOCK_GRAPHICS:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return card.answer(card.application_megahertz)

    def nvmlDeviceGetTemperatureV(self, card, sensor):  # noqa: N802
        assert sensor == pynvml.NVML_TEMPERATURE_GPU
        return card.answer(card.celsius)

    nvmlDeviceGetTemperature = nvmlDeviceGetTemperatureV  # noqa: N815

    def nvmlDeviceGetTotalEnergyConsumption(self, card):  # noqa: N802
        return card.answer(card.millijoules)

    def nvmlDeviceGetMigMode(self, card):  # noqa: N802
        return list(card.answer(card.mig_modes))

    def nvmlDeviceGetCurrentClocksEventReasons(self, card):  # noqa: N802
        return card.answer(card.reasons)


class NoDriver(Nvml):
    error = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND


@contextmanager
def installed(nvml, *visible):
    """Install NVML, and let torch see the GPUs with these UUIDs, in this order."""
    devices = [SimpleNamespace(uuid=uuid) for uuid in visible]
    with (
        mock.patch("batchmark_job.machine.nvml.pynvml", nvml),
        mock.patch.object(torch.cuda, "device_count", return_value=len(devices)),
        mock.patch.object(torch.cuda, "get_device_properties", devices.__getitem__),
    ):
        yield
