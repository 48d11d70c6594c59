"""Which jobs' samples are pooled, and which are refused."""

import pytest

from batchmark_job.result.document import Device, Implementation
from tests.builders.pairs import CPU_ROWS, CPU_SAMPLES, GPU_ROWS, pair_of
from tests.builders.runs import GPU_ENVIRONMENT, build_job, build_row


def pair_with(**second):
    """Of two jobs of a GPU target, of which the second is different, and one of a CPU target."""
    return pair_of(
        build_job("g5.xlarge", GPU_ROWS, repeat=1, job_id="a"),
        build_job("g5.xlarge", GPU_ROWS, repeat=2, job_id="b", **second),
        build_job("c5.2xlarge", CPU_ROWS),
    )


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("cpu_model", "Intel Xeon 8259CL", "CPU model: AMD EPYC 7R32 (job a), Intel Xeon 8259CL"),
        ("gpu_model", "Tesla T4", "GPU model: NVIDIA A10G (job a), Tesla T4 (job b)"),
        ("driver_version", "590.10.01", "driver major: 580 (job a), 590 (job b)"),
        ("torch_version", "2.14.0+cu130", "torch: 2.13.0+cu130 (job a), 2.14.0+cu130 (job b)"),
        ("instance_type", "g5.2xlarge", "instance type: g5.xlarge (job a), g5.2xlarge (job b)"),
        ("image_digest", None, "(job a), none (job b)"),
    ],
)
def test_repeats_from_different_environments_are_not_pooled(field, value, named):
    pair = pair_with(environment=GPU_ENVIRONMENT.model_copy(update={field: value}))
    assert named in pair.refused
    assert "Run the benchmark again" in pair.refused
    assert pair.rows == pair.uncompared == pair.totals == ()


def test_repeats_on_different_devices_or_a_cpu_target_on_a_gpu_are_refused():
    pair = pair_with(actual_device=Device.CPU)
    assert "device: cuda" in pair.refused
    assert pair.cpu_fallback
    pair = pair_of(
        build_job("g5.xlarge", GPU_ROWS),
        build_job("c5.2xlarge", CPU_ROWS, actual_device=Device.CUDA),
    )
    assert pair.refused == "c5.2xlarge is a CPU target, but one of its jobs ran on cuda"


def test_a_driver_patch_and_a_kernel_may_differ():
    patched = GPU_ENVIRONMENT.model_copy(update={"driver_version": "580.99.01", "kernel": "6.13"})
    pair = pair_with(environment=patched)
    assert pair.refused is None
    assert (pair.rows[0].gpu.samples, pair.rows[0].gpu.jobs) == (14, 2)


@pytest.mark.parametrize(
    ("other", "end"),
    [
        (("opencv", "5.0.0"), "different implementations (torch 2.13.0, opencv 5.0.0)"),
        (("torch", "9"), "(torch 2.13.0, torch 9); keep the results of each version apart"),
    ],
)
def test_different_implementations_are_not_pooled(other, end):
    code = Implementation(name=other[0], version=other[1])
    pair = pair_of(
        build_job("g5.xlarge", GPU_ROWS),
        build_job("c5.2xlarge", CPU_ROWS, repeat=1),
        build_job("c5.2xlarge", [build_row(CPU_SAMPLES, implementation=code)], repeat=2),
    )
    (row,) = pair.uncompared
    assert row.reason.endswith(end)
