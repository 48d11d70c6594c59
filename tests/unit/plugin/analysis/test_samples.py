"""Which jobs' samples are pooled, and the figures and flags of one target's row."""

import pytest

from batchmark.report import words
from batchmark_job.result.document import Ceiling, Conditions, Device, Implementation, Trial
from tests.builders.pairs import CPU_ROWS, CPU_SAMPLES, GPU_ROWS, pair_of
from tests.builders.runs import GPU_ENVIRONMENT, build_full_job, build_job, build_row

SIZE = 1000
FLOPS, MOVED = 2 * SIZE**3, 12 * SIZE**2
CPU_JOB = build_job("c5.2xlarge", [build_row([1.0] * 8)])


def row_of(*gpu_rows, build=build_job, **fields):
    """The compared row of a GPU target with one job for each of these rows."""
    jobs = [build("g5.xlarge", [row], repeat=n, **fields) for n, row in enumerate(gpu_rows, 1)]
    pair = pair_of(*jobs, CPU_JOB)
    assert len(pair.rows) == 1, pair.uncompared
    return pair.rows[0]


def ceiling(kind, rate, dtype=None):
    return Ceiling(kind=kind, dtype=dtype, rate_per_second=rate, description="a test's")


def test_roofline_by_hand():
    row = build_row([0.001] * 4 + [0.002] * 4, flops=FLOPS, bytes_moved=MOVED)
    side = row_of(
        row,
        ceilings=(
            ceiling("compute", 4e12, "float32"),
            ceiling("compute", 9e12, "tf32"),
            ceiling("copy", 100e9),
            ceiling("read", 90e9),
        ),
    ).gpu
    roofline = side.roofline
    seconds = side.median_seconds
    assert seconds.value == 0.0015
    assert roofline.flops_per_second.value == pytest.approx(FLOPS / 0.0015)
    assert roofline.flops_per_second.interval.low == pytest.approx(FLOPS / seconds.interval.high)
    assert roofline.bytes_per_second.value == pytest.approx(MOVED / 0.0015)
    assert roofline.compute_share == pytest.approx(FLOPS / 0.0015 / 4e12)
    assert roofline.memory_share == pytest.approx(MOVED / 0.0015 / 100e9)
    assert roofline.bound == "compute"  # 167 flops a byte, balance 40
    assert roofline.share == roofline.compute_share


def test_images_per_second_have_the_interval_of_the_time():
    side = row_of(build_row([0.1, 0.2] * 8, items=32)).gpu
    rate, seconds = side.items_per_second, side.median_seconds
    assert rate.value == pytest.approx(32 / seconds.value)
    assert rate.interval.low == pytest.approx(32 / seconds.interval.high)
    assert rate.interval.high == pytest.approx(32 / seconds.interval.low)
    shown = dict(words.side_facts(side))["throughput"]
    assert shown.startswith("210 images/s [160, 320]")
    assert "throughput" not in dict(words.side_facts(row_of(build_row([0.1] * 8)).gpu))


def test_few_flops_per_byte_are_bound_by_memory():
    row = build_row([0.001] * 8, flops=10 * MOVED, bytes_moved=MOVED)
    ceilings = (ceiling("compute", 4e12, "float32"), ceiling("copy", 100e9), ceiling("read", 120e9))
    roofline = row_of(row, ceilings=ceilings).gpu.roofline
    assert roofline.bound == "memory"
    assert roofline.share == roofline.memory_share == pytest.approx(MOVED / 0.001 / 120e9)


def test_a_ceiling_is_the_median_over_the_rows_jobs():
    row = build_row([0.001] * 8, flops=FLOPS)
    jobs = [
        build_job("g5.xlarge", [row], repeat=n, ceilings=(ceiling("compute", rate, "float32"),))
        for n, rate in enumerate((4e12, 5e12, 9e12), start=1)
    ]
    roofline = pair_of(*jobs, CPU_JOB).rows[0].gpu.roofline
    assert roofline.compute_ceiling == 5e12
    assert roofline.bytes_per_second is roofline.memory_ceiling is roofline.bound is None
    assert roofline.share is None
    uncounted = row_of(build_row([0.001] * 8))
    assert uncounted.gpu.roofline is None


def test_energy_memory_and_steal_over_the_jobs():
    rows = [
        build_row(
            [0.001] * 8,
            flops=FLOPS,
            energy_joules=joules,
            peak_memory_bytes=size,
            conditions_during=Conditions(cpu_steal_share=steal, cpu_wait_share=waited),
        )
        for joules, size, steal, waited in (
            (1.0, 500, 0.0, 0.01),
            (2.0, 700, 0.05, None),
            (4.0, 600, None, 0.34),
        )
    ]
    row = row_of(*rows)
    assert row.gpu.energy_joules == 2.0
    assert row.gpu.flops_per_joule == FLOPS / 2.0
    assert row.gpu.peak_memory_bytes == 700
    assert row.gpu.steal_share == 0.05
    assert row.gpu.wait_share == 0.34
    assert row.warnings == (
        "g5.xlarge: the hypervisor took 5.0 % of CPU time from the machine",
        "g5.xlarge: other work on the machine: the job's threads waited 34 % of their time for a "
        "CPU",
    )
    # An energy that no counter could read gives no efficiency.
    row = row_of(build_row([0.001] * 8, flops=FLOPS, energy_joules=5e-324))
    assert row.gpu.flops_per_joule is None


def test_throttled_samples_are_left_out_only_where_enough_remain():
    row = row_of(build_row([0.1] * 6 + [0.9] * 8, throttled_samples=tuple(range(6, 14))))
    assert row.gpu.median_seconds.value == 0.1
    assert (row.gpu.samples, row.gpu.throttled_samples, row.gpu.throttled_left_out) == (6, 8, 8)
    assert row.warnings == (
        "g5.xlarge: 8 samples left out of the median because the device was throttled",
    )
    row = row_of(build_row([0.1] * 5 + [0.9] * 8, throttled_samples=tuple(range(5, 13))))
    assert row.gpu.median_seconds.value == 0.9
    assert (row.gpu.throttled_samples, row.gpu.throttled_left_out) == (8, 0)
    assert any("8 samples in the median were taken while" in text for text in row.warnings)
    assert any("fewer than 6" in text for text in row.warnings)


def test_flags_and_why_sampling_ended_are_counted_over_the_jobs():
    rows = [
        build_row([0.1] * 8, outlier_samples=(1, 2), multimodal=True),
        build_row([0.1] * 8, outlier_samples=(5,), multimodal=False),
    ]
    row = row_of(*rows)
    assert (row.gpu.outlier_samples, row.gpu.multimodal_jobs) == (3, 1)
    assert row.gpu.samples == 16
    assert (
        "g5.xlarge: the samples of 1 of 2 jobs cluster around more than one value"
        in (row.warnings[0])
    )
    side = row_of(*(build_row([0.1] * 8) for _ in range(2)), build=build_full_job).gpu
    assert side.stopping == {"precise": 2}
    assert [one.outcome for one in side.trials] == ["chosen", "slower", "refused"]


def rival_row(*names):
    """A row whose trials chose the first of these implementations."""
    chosen, other = (Implementation(name=name, version="1") for name in names)
    trials = tuple(
        Trial(implementation=one, outcome=outcome, median_seconds=0.1, calls=3)
        for one, outcome in ((chosen, "chosen"), (other, "slower"))
    )
    return build_row([0.1] * 8, implementation=chosen, trials=trials)


def test_jobs_whose_trials_chose_differently_are_pooled_and_say_so():
    row = row_of(rival_row("torch", "triton"), rival_row("triton", "torch"))
    assert row.gpu.jobs == 2
    assert (
        "g5.xlarge: nearly equal implementations: its jobs chose torch 1 and triton 1"
        in row.warnings
    )


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
    ("name", "version", "end"),
    [
        ("opencv", "5.0.0", "different implementations (torch 2.13.0, opencv 5.0.0)"),
        ("torch", "9", "(torch 2.13.0, torch 9); keep the results of each version apart"),
    ],
)
def test_different_implementations_are_not_pooled(name, version, end):
    code = Implementation(name=name, version=version)
    pair = pair_of(
        build_job("g5.xlarge", GPU_ROWS),
        build_job("c5.2xlarge", CPU_ROWS, repeat=1),
        build_job("c5.2xlarge", [build_row(CPU_SAMPLES, implementation=code)], repeat=2),
    )
    (row,) = pair.uncompared
    assert row.reason.endswith(end)
