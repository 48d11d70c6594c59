"""NVML's values in our units, what a GPU can't tell, and which GPUs are asked."""

import pynvml
import pytest
import torch

from batchmark_job.machine import nvml
from batchmark_job.machine.nvml import Gpu, visible_gpus
from tests.stand_ins.nvml import Card, Nvml, installed

VALUES = (
    Gpu.utilization_percent,
    Gpu.memory_used_bytes,
    Gpu.power_watts,
    Gpu.clock_hz,
    Gpu.application_clock_hz,
    Gpu.memory_clock_hz,
    Gpu.temperature_celsius,
    Gpu.energy_joules,
    Gpu.event_reasons,
)
NOTHING = Card(*[None] * 9)


class Older(Nvml):
    def nvmlDeviceGetTemperatureV(self, card, sensor):  # noqa: N802
        raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)


@pytest.mark.parametrize("nvml", [Nvml(), Older()])
def test_values_are_in_this_projects_units(nvml):
    values = [value(Gpu(nvml, Card())) for value in VALUES]
    assert values == [90, 6_000_000_000, 150, 1.71e9, 1.695e9, 6.251e9, 41, 2.5, ()]


@pytest.mark.parametrize(
    "error",
    [
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_DEPRECATED,
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
    ],
)
def test_a_gpu_that_tells_nothing(error, monkeypatch):
    monkeypatch.setattr(NOTHING, "error", error)
    gpu = Gpu(Nvml(), NOTHING)
    assert [value(gpu) for value in VALUES] == [None] * len(VALUES)


@pytest.mark.parametrize("value", VALUES)
def test_a_gpu_that_is_lost_is_an_error(value, monkeypatch):
    monkeypatch.setattr(NOTHING, "error", pynvml.NVML_ERROR_GPU_IS_LOST)
    with pytest.raises(pynvml.NVMLError, match="GPU is lost"):
        value(Gpu(Nvml(), NOTHING))


def test_reasons_have_nvidia_smis_names_and_some_count_as_slowed_down():
    bits = pynvml.nvmlClocksEventReasonSwPowerCap | pynvml.nvmlClocksEventReasonGpuIdle | 1 << 62
    assert Gpu(Nvml(), Card(reasons=bits)).event_reasons() == ("gpu_idle", "sw_power_cap")
    everything = Gpu(Nvml(), Card(reasons=pynvml.nvmlClocksEventReasonAll)).event_reasons()
    assert set(everything or ()) - nvml.SLOWDOWNS == {
        "gpu_idle",
        "applications_clocks_setting",
        "sync_boost",
        "display_clocks_setting",
    }
    assert set(everything or ()) == set(nvml.EVENT_REASONS)


def test_only_the_gpus_that_torch_sees_in_its_order():
    cards = Nvml(GPU_aa=Card(celsius=1), GPU_bb=Card(celsius=2), MIG_cc=Card(utilization=None))
    with installed(cards, "cc", "aa"):
        part, whole = visible_gpus()  # a part of a GPU is found by its own name
    assert (part.utilization_percent(), part.memory_used_bytes()) == (None, 6_000_000_000)
    assert whole.temperature_celsius() == 1
    with installed(cards, "dd"), pytest.raises(pynvml.NVMLError, match="Not Found"):
        visible_gpus()


@pytest.mark.usefixtures("cuda")
def test_a_real_gpu():
    torch.ones(1, device="cuda")
    gpus = visible_gpus()
    assert len(gpus) == torch.cuda.device_count()
    for gpu in gpus:
        assert 0 < (gpu.memory_used_bytes() or 0) < 2**40
        assert 0 < (gpu.clock_hz() or 0) < 1e10
        assert 0 < (gpu.memory_clock_hz() or 1e9) < 1e11
        assert 0 <= (gpu.utilization_percent() or 0) <= 100
        assert 0 < (gpu.power_watts() or 100) < 5000
        assert 0 < (gpu.temperature_celsius() or 0) < 120
        assert (gpu.energy_joules() or 1) > 0
        assert set(gpu.event_reasons() or ()) <= set(nvml.EVENT_REASONS)
