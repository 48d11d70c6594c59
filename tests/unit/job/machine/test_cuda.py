"""CUDA that can't be used at a job's start: what is said for each reason. No GPU is needed.

The stand-ins sit where torch and NVML are asked: torch.cuda, torch.version.cuda and pynvml.
"""

import warnings
from contextlib import contextmanager
from types import SimpleNamespace
from unittest import mock

import pynvml
import pytest
import torch

from batchmark_job.errors import CannotMeasureError
from batchmark_job.machine import cuda
from batchmark_job.machine.cuda import find_obstacle, start
from tests.stand_ins.nvml import Card, NoDriver, Nvml
from tests.stand_ins.workers import run_job_here as run_job

TOO_OLD = "The NVIDIA driver on your system is too old (found version 12020).\nMore advice."


def driver(gpus=1, **changes):
    """NVML with a driver, as a container sees it."""
    nvml = Nvml(**{f"GPU_{number}": Card(memory_used=15 * 2**30) for number in range(gpus)})
    vars(nvml).update(changes)
    return nvml


@contextmanager
def no_cuda(nvml, *, built_for="13.0", torch_says=""):
    """torch sees no device, and warns of what it found, as it does."""

    def is_available():
        if torch_says:
            warnings.warn(torch_says, UserWarning, stacklevel=1)
        return False

    with (
        mock.patch("batchmark_job.machine.nvml.pynvml", nvml),
        mock.patch.object(torch.cuda, "is_available", is_available),
        mock.patch.object(torch.version, "cuda", built_for),
        mock.patch.object(torch, "__version__", "2.13.0+cu130" if built_for else "2.13.0+cpu"),
    ):
        yield


@contextmanager
def a_gpu(
    error=None, *, nvml=None, capability=(7, 5), built_for=("sm_75", "sm_90a", "compute_120")
):
    """torch sees a device; taking memory of it ends in an error where one is given."""
    name = "Tesla V100-SXM2-16GB"
    properties = SimpleNamespace(name=name, uuid="0", total_memory=16 * 2**30)
    taken = mock.Mock(side_effect=error)
    with (
        mock.patch("batchmark_job.machine.nvml.pynvml", nvml or driver()),
        mock.patch.multiple(
            torch.cuda,
            is_available=lambda: True,
            init=lambda: None,
            device_count=lambda: 1,
            get_arch_list=lambda: list(built_for),
            get_device_capability=lambda device: capability,
            get_device_name=lambda device: name,
            get_device_properties=lambda device: properties,
        ),
        mock.patch.object(torch, "empty", taken),
    ):
        yield taken


def obstacle(nvml=None, **circumstances):
    with no_cuda(nvml or driver(), **circumstances):
        found = find_obstacle()
    assert "\n" not in "".join(found)
    return found


def test_a_driver_too_old_for_torch_or_a_cpu_image_is_named_but_no_older_minor_version():
    nvml = driver(version="535.183.01", cuda=12020)
    what, remedy = obstacle(nvml, torch_says=TOO_OLD)
    assert what == (
        "NVIDIA driver 535.183.01, for CUDA 12.2, is too old for torch 2.13.0+cu130, "
        "built for CUDA 13.0"
    )
    assert remedy.startswith("the host needs driver 580 or newer; on AWS, use a newer GPU AMI")
    assert obstacle(nvml, built_for="14.1")[1].startswith("the host needs one for CUDA 14;")
    what, _ = obstacle(driver(cuda=13000), built_for="13.2", torch_says="CUDA unknown error\nx")
    seen = "torch sees none of the 1 GPU(s) that NVIDIA driver 580.95.05 finds"
    assert what == f"{seen} and warns: CUDA unknown error"
    what, remedy = obstacle(built_for=None)
    assert what == "this torch (2.13.0+cpu) is built without CUDA"
    assert remedy.startswith("run the gpu variant of the job image, whose tag does not end in -cpu")


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"error": pynvml.NVML_ERROR_DRIVER_NOT_LOADED}, "no NVIDIA driver responds (Driver Not L"),
        ({"gpus": 0}, "NVIDIA driver 580.95.05 finds no GPU"),
    ],
)
@pytest.mark.parametrize(("visible", "shown"), [(None, "not set"), ("void", "'void'")])
def test_no_gpu_says_what_to_check(changes, what, visible, shown, monkeypatch):
    monkeypatch.delenv("NVIDIA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", visible)
    found = obstacle(driver(**changes))
    assert found[0].startswith(what)
    for checked in (
        "nvidia-container-toolkit",
        "a resource requirement of type GPU",
        f"NVIDIA_VISIBLE_DEVICES (currently {shown})",
    ):
        assert checked in found[1]


def test_what_a_variable_keeps_from_torch_names_it(monkeypatch):
    monkeypatch.setenv("NVIDIA_DRIVER_CAPABILITIES", "utility")
    what, remedy = obstacle(driver(cuda=None))
    assert "without its CUDA library, libcuda.so.1" in what
    assert remedy == "NVIDIA_DRIVER_CAPABILITIES must include compute (currently 'utility')"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    what, remedy = obstacle(driver(gpus=4))
    assert what == "torch sees none of the 4 GPU(s) that NVIDIA driver 580.95.05 finds"
    assert "CUDA_VISIBLE_DEVICES (currently '-1')" in remedy


def test_a_job_says_it_in_one_line_and_measures_nothing(make_settings, tmp_path):
    with (
        no_cuda(driver(version="535.183.01", cuda=12020), torch_says=TOO_OLD),
        pytest.raises(CannotMeasureError) as caught,
    ):
        run_job(make_settings(requested_device="cuda"))
    message = str(caught.value)
    assert caught.value.exit_code == 3
    assert message.startswith("cannot measure: --device is cuda, but NVIDIA driver 535.183.01, ")
    assert message.endswith("or pass --allow-cpu-fallback to measure on the CPU instead")
    assert "\n" not in message
    assert not list(tmp_path.iterdir())


def test_a_gpu_that_is_full_at_the_start_says_how_full(make_settings):
    error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB.\nMore.")
    with a_gpu(error), pytest.raises(CannotMeasureError) as caught:
        run_job(make_settings(requested_device="cuda", allow_cpu_fallback=True))
    assert str(caught.value) == (
        "cannot measure: the GPU ran out of memory before the first row "
        "(15.0 of 16.0 GiB in use); stop the other processes on it (`nvidia-smi` on the host lists "
        "them), or give each job its own GPU"
    )


@pytest.mark.parametrize(
    ("error", "nvml", "message"),
    [
        ("out of memory", NoDriver(), "first row; stop the"),
        ("unspecified launch failure", None, r"CUDA failed to start: .*launch failure; check"),
    ],
    ids=["full, and no NVML", "any other"],
)
def test_an_error_of_the_gpu_at_the_start_is_told(error, nvml, message):
    raised = RuntimeError(f"CUDA error: {error}\nCompile with ...")
    with a_gpu(raised, nvml=nvml), pytest.raises(CannotMeasureError, match=message):
        start()


@pytest.mark.parametrize("kind", [RuntimeError, torch.cuda.DeferredCudaCallError])
def test_a_gpu_that_does_not_come_up_is_told(kind):
    """Whatever is asked of it first: torch brings CUDA up with any question to a GPU."""
    fails = mock.Mock(side_effect=kind("CUDA unknown error - this may be due to ...\nMore."))
    with (
        a_gpu(),
        mock.patch.multiple(torch.cuda, init=fails, get_device_capability=fails),
        pytest.raises(CannotMeasureError, match=r"CUDA failed to start: .*unknown error.*; check"),
    ):
        start()


def test_a_gpu_that_torch_has_no_code_for_is_named():
    told = r"V100.* 7\.0, .* built for sm_75 .*GPU \(T4, H100, H200, RTX PRO 4500, RTX PRO"
    with a_gpu(capability=(7, 0)) as taken, pytest.raises(CannotMeasureError, match=told):
        start()
    assert not taken.called


@pytest.mark.parametrize("built_for", [("sm_75", "sm_90a", "compute_120"), ()])
def test_a_healthy_gpu_is_taken_without_a_kernel(built_for):
    with a_gpu(built_for=built_for) as taken:
        assert find_obstacle() is None
        start()
    assert taken.mock_calls == [mock.call(1, device="cuda"), mock.call().cpu()]


@pytest.mark.parametrize("requested", ["cpu", "auto"])
def test_a_cpu_job_asks_no_driver(requested, make_settings):
    with (
        no_cuda(driver(error=pynvml.NVML_ERROR_UNKNOWN)),
        mock.patch.object(cuda, "find_obstacle", side_effect=AssertionError("asked")),
    ):
        assert run_job(make_settings(requested_device=requested)) == 0
