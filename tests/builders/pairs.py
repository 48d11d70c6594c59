"""Builders of a GPU target and a CPU target that are compared."""

from batchmark.analysis.comparison import compare
from batchmark.analysis.judging.noise import measure_noise
from batchmark.analysis.pooling import group_jobs
from batchmark_job.result.document import MeasurementStatus
from tests.builders.runs import PRICES, build_job, build_repeats, build_row, build_run

GPU_SAMPLES = (0.5, 0.1, 0.2, 0.7, 0.3, 0.6, 0.4)  # median 0.4
CPU_SAMPLES = (1.0, 3.0, 2.0, 9.0, 2.0, 1.5, 2.5, 1.0)  # median 2.0
GPU_ROWS, CPU_ROWS = [build_row(GPU_SAMPLES)], [build_row(CPU_SAMPLES)]
SIZES = (100, 200, 400, 800)


def pair_of(*jobs):
    (pair,) = compare(build_run(*jobs), PRICES).pairs
    return pair


def two_jobs(gpu_rows, cpu_rows, **fields):
    return build_job("g5.xlarge", gpu_rows, **fields), build_job("c5.2xlarge", cpu_rows, **fields)


def at_sizes(target, *seconds, **fields):
    """Repeats of one workload that takes so many seconds at the first of the sizes."""
    medians = {("matmul", "size", size): one for size, one in zip(SIZES, seconds, strict=False)}
    return build_repeats(target, medians, **fields)


def skipped(reason, **fields):
    return build_row(status=MeasurementStatus.SKIPPED, reason=reason, **fields)


def calibration(target, **fields):
    jobs = [
        build_job(target, [build_row((median,) * 8, **fields)], repeat=n)
        for n, median in enumerate((0.5, 0.505, 0.495, 0.5), start=1)
    ]
    ((one,),) = group_jobs(build_run(*jobs)).values()
    return measure_noise(one, suite="blog", dtype="float32", region=None, run_id="run")
