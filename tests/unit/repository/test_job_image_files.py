"""The locks and the Dockerfile of the job image agree; tests/containers builds and runs it."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "job_container"
DOCKERFILE = (FOLDER / "Dockerfile").read_text()


def pins(lock):
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", (FOLDER / lock).read_text(), re.MULTILINE))


def test_the_gpu_lock_is_the_cpu_lock_and_cuda():
    cpu, gpu = pins("requirements.txt"), pins("requirements-gpu.txt")
    assert cpu.items() <= gpu.items()
    added = gpu.keys() - cpu.keys()
    assert {"torch", "triton", "nvidia-cublas"} <= added
    assert all(name.startswith(("nvidia-", "cuda-", "triton", "torch")) for name in added), added


def test_torch_of_the_cpu_variant_is_the_gpu_variants():
    wanted = re.findall(r"^torch==(\S+)$", (FOLDER / "requirements.in").read_text(), re.MULTILINE)
    assert wanted == [pins("requirements-gpu.txt")["torch"]]


def test_what_builds_it_is_locked():
    assert {"cyclonedx-bom", "uv"} <= pins("requirements-build.txt").keys()


@pytest.mark.parametrize(
    "source",
    sorted(
        {
            word
            for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
            for word in line.split()[:-1]
        }
    ),
)
def test_what_is_copied_reaches_the_build(source):
    name = source.rstrip("/")
    assert (FOLDER / name).exists()
    assert f"!{name}" in (FOLDER / ".dockerignore").read_text().splitlines()
