"""Crossovers of two targets' rows, and the calls from which the GPU's start pays."""

from datetime import timedelta

import numpy as np
import pytest

from batchmark.analysis.comparison import compare
from batchmark.analysis.judging.noise import RowNoise, SideNoise
from batchmark.analysis.pairs.crossover import RowVerdict, calls_until_gpu_pays, find_crossovers
from batchmark.analysis.pooling import group_jobs
from batchmark.analysis.samples import row_key
from batchmark.analysis.sides import priced_targets
from batchmark.report import words as report_words
from batchmark_job.result.document import Phases
from tests.builders.runs import (
    PRICES,
    START,
    build_full_job,
    build_job,
    build_marks,
    build_row,
    build_run,
    noisy,
)


def rows_of(medians, *, count=30):
    return [
        build_row(noisy(median, seed=size, count=count), parameters={"size": size})
        for size, median in medians.items()
    ]


# The GPU is 10 times as fast in the end; equal where 9e-5 s are 0.9e-12 s times size cubed.
GPU = {size: 9e-5 + 1e-13 * size**3 for size in (250, 500, 2000, 4000)}
CPU = {size: 1e-12 * size**3 for size in (250, 500, 2000, 4000)}
TRUTH = 1e8 ** (1 / 3)


def run_of(gpu_rows, cpu_rows, *, jobs=1, build=build_job):
    sides = ("g5.xlarge", gpu_rows), ("c5.2xlarge", cpu_rows)
    return build_run(*(build(*side, repeat=n) for n in range(1, jobs + 1) for side in sides))


def pair_report(gpu_rows, cpu_rows, *, jobs=3, build=build_full_job):
    (pair,) = compare(run_of(gpu_rows, cpu_rows, jobs=jobs, build=build), PRICES).pairs
    return pair


def test_time_and_dollars_warm_and_cold():
    pair = pair_report(rows_of(GPU), rows_of(CPU), jobs=6)
    (found,) = pair.crossovers
    assert found.warm_seconds.low < TRUTH < found.warm_seconds.high
    # In dollars the GPU must be 1.006 / 0.34 times as fast.
    dearer = (1.006 * 9e-5 / (0.34 * 1e-12 - 1.006 * 1e-13)) ** (1 / 3)
    assert found.warm_usd.low < dearer < found.warm_usd.high
    assert found.cold_seconds.outcome == "cpu_ahead"
    assert found.cold_seconds.interval_reason is None
    assert found.cold_reason is None


def test_few_jobs_widen_the_interval_and_make_a_crossover_no_surer_than_the_rows():
    one = pair_report(rows_of(GPU), rows_of(CPU), jobs=1).crossovers[0].warm_seconds
    many = pair_report(rows_of(GPU), rows_of(CPU), jobs=3).crossovers[0].warm_seconds
    assert one.high / one.low > 1.2 * many.high / many.low
    assert one.low < TRUTH < one.high
    # One job a side: twice as fast is undecided in each row, so nobody is surely ahead.
    cpu = {size: 2.2 * seconds for size, seconds in GPU.items()}
    pair = pair_report(rows_of(GPU), rows_of(cpu), jobs=1)
    assert {row.verdict for row in pair.rows} == {"undecided"}
    (found,) = pair.crossovers
    assert found.warm_seconds.outcome == "undecided"
    assert found.warm_seconds.gpu_ahead == found.warm_seconds.cpu_ahead == ()
    (found,) = pair_report(rows_of(GPU), rows_of(CPU), jobs=5).crossovers
    assert (found.cold_seconds.outcome, found.cold_seconds.cpu_ahead) == ("undecided", ())
    assert found.cold_seconds.interval_reason == "as it takes 6 jobs and there are 5"


def warm_width(gpu_floor, cpu_floor, *, jobs=6, source="calibration", degrees=19):
    """Of the interval on a logarithmic axis, with such noise and rows that are all decided."""
    gpu_rows, cpu_rows = rows_of(GPU, count=8), rows_of(CPU, count=8)
    gpu_noise, cpu_noise = (
        SideNoise(floor=floor, degrees=degrees, source=source) for floor in (gpu_floor, cpu_floor)
    )
    noise = RowNoise(
        lead=0.0,
        gpu=gpu_noise,
        cpu=cpu_noise,
        floor=max(gpu_floor, cpu_floor),
        smallest_detectable_change=0.1,
        critical_change=0.1,
        source=source,
    )
    verdicts = {
        row_key(row): RowVerdict(1 if row.parameters["size"] > TRUTH else -1, 0, noise)
        for row in gpu_rows
    }
    ((cpu, gpu),) = priced_targets(run_of(gpu_rows, cpu_rows, jobs=jobs), PRICES)
    (found,) = find_crossovers(gpu, cpu, verdicts)
    return np.log(found.warm_seconds.high / found.warm_seconds.low)


def test_each_targets_curve_has_its_own_noise_and_its_own_number_of_jobs():
    # A noisy GPU does not make a calibrated CPU as noisy.
    both, one, none = warm_width(0.1, 0.1), warm_width(0.1, 0.001), warm_width(0.001, 0.001)
    assert none < 0.5 * one
    assert one < 0.9 * both
    # Student's t of 3 jobs, 12 times as wide as in 20: 4.3 / sqrt(3) against 2.1 / sqrt(20).
    few = warm_width(0.05, 0.05, jobs=3, source="repeats", degrees=2)
    many = warm_width(0.05, 0.05, jobs=20, source="repeats", degrees=19)
    assert few > 3 * many


def test_one_call_at_any_size_pays_for_the_first_use_of_its_code():
    """Libraries load in the first row's cold call alone: 3 s on the GPU."""
    cpu = {size: 1e-9 * size**3 for size in (500, 1000, 2000, 4000)}
    gpu = rows_of(dict.fromkeys(cpu, 0.01))
    gpu[0] = gpu[0].model_copy(update={"cold_seconds": 3.0})
    found = pair_report(gpu, rows_of(cpu), jobs=6).crossovers[0].cold_seconds
    # Start-up takes 5.2 and 2.7 s, a CPU's cold call 10 warm ones: 5.2 + 3 = 2.7 + 1e-8 * size**3.
    assert found.size == pytest.approx((5.5e8) ** (1 / 3), rel=0.02)


def test_a_jobs_start_up_moves_its_one_call_at_all_sizes():
    """As if each size had start-ups of its own, the interval was 1.8-fold."""

    def build(target, rows, repeat):
        marks = build_marks(START, gpu=target == "g5.xlarge")
        late = timedelta(seconds=repeat if target == "g5.xlarge" else 0)
        marks = marks.model_copy(update={"device_ready_at": marks.device_ready_at + late})
        return build_full_job(target, rows, repeat=repeat, marks=marks)

    cpu = {size: 1e-9 * size**3 for size in (500, 1000, 2000, 4000)}
    gpu = rows_of(dict.fromkeys(cpu, 0.01))
    found = pair_report(gpu, rows_of(cpu), jobs=9, build=build).crossovers[0].cold_seconds
    assert found.high / found.low < 1.5


def test_no_dollars_without_a_price_and_nothing_cold_without_marks():
    pair = pair_report(rows_of(GPU), rows_of(CPU), jobs=1, build=build_job)
    assert pair.crossovers[0].warm_usd is not None
    assert pair.crossovers[0].cold_seconds is None
    assert pair.crossovers[0].cold_reason == (
        "g5.xlarge and c5.2xlarge: no job recorded when its device was ready"
    )
    run = run_of(rows_of(GPU), rows_of(CPU))
    (unpriced,) = compare(run, PRICES.only(["c5.2xlarge"])).pairs
    assert unpriced.crossovers[0].warm_usd is None


def image_rows(seconds, **fields):
    grid = [{"size": size, "batch": batch} for size in (512, 1024, 2048) for batch in (1, 2)]
    fields |= {"workload": "image_convolution"}
    return [build_row(noisy(seconds(**one)), parameters=one, **fields) for one in grid]


def test_images_have_a_crossover_for_each_batch_and_each_dtype_its_own():
    gpu = image_rows(lambda size, batch: 4e-3 + 1e-10 * batch * size**2)
    gpu += image_rows(lambda size, batch: 4e-3 + 1e-11 * batch * size**2, dtype="float16")
    cpu = image_rows(lambda size, batch: 2e-9 * batch * size**2)
    cpu += image_rows(lambda size, batch: 2e-9 * batch * size**2, dtype="float16")
    found = pair_report(gpu, cpu, build=build_job).crossovers
    assert [(one.dtype, one.parameters, one.axis) for one in found] == [
        (dtype, {"batch": batch}, "size") for dtype in ("float32", "float16") for batch in (1, 2)
    ]
    for one in found:
        per_pixel = {"float32": 1.9e-9, "float16": 1.99e-9}[one.dtype]
        truth = (4e-3 / per_pixel / one.parameters["batch"]) ** 0.5
        assert one.warm_seconds.low < truth < one.warm_seconds.high

    # A batch is the axis where nothing else varies.
    def rows(seconds):
        return [
            build_row(noisy(seconds * batch), workload="resnet50", parameters={"batch": batch})
            for batch in (1, 8)
        ]

    (found,) = pair_report(rows(0.1), rows(1.0), build=build_job).crossovers
    assert (found.axis, found.sizes) == ("batch", (1, 8))


def test_calls_until_the_gpu_pays_are_told_with_two_digits_only_where_it_is_surely_faster():
    """Medians that differ by chance would give a number too."""
    same = rows_of({1000: 0.1, 2000: 0.8})
    faster = rows_of({1000: 0.0999, 2000: 0.08})
    close, clear = pair_report(faster, same, jobs=6).rows
    assert (close.verdict, close.calls_until_gpu_pays) == ("undecided", None)
    assert (clear.verdict, clear.calls_until_gpu_pays) == ("gpu_target_faster", 1)
    words = report_words.calls_until_gpu_pays
    assert words(17_075, "g5").endswith(
        "g5 takes less time from about 17000 calls onward in a single job."
    )
    assert words(1, "g5").endswith("g5 takes less time from the first call onward in a single job.")


@pytest.mark.parametrize(
    ("speedup", "verdict", "cheaper"),
    [
        (20, "gpu_target_faster", "gpu_target_cheaper"),
        (1.5, "gpu_target_faster", "cpu_target_cheaper"),
        (0.5, "cpu_target_faster", "cpu_target_cheaper"),
    ],
)
def test_who_is_cheaper_is_weighed_like_who_is_faster(speedup, verdict, cheaper):
    pair = pair_report(rows_of({1000: 0.1 / speedup}), rows_of({1000: 0.1}), jobs=6)
    assert [(row.verdict, row.cheaper) for row in pair.rows] == [(verdict, cheaper)]


def test_in_dollars_the_lead_is_that_of_the_verdict_on_time():
    """1.006 / 0.34 times as fast costs the same; the GPU's jobs scatter around that."""
    jobs = []
    for repeat, seconds in enumerate([0.034, 0.034, 0.034, 0.034, 0.03, 0.03, 0.03], start=1):
        jobs.append(build_full_job("g5.xlarge", rows_of({1000: seconds}), repeat=repeat))
        jobs.append(build_full_job("c5.2xlarge", rows_of({1000: 0.1}), repeat=repeat))
    (row,) = compare(build_run(*jobs), PRICES).pairs[0].rows
    mean_log = np.mean(np.log([0.034] * 4 + [0.03] * 3))
    assert row.noise.lead == pytest.approx(np.log(0.1) - mean_log, abs=0.01)
    assert (row.verdict, row.cheaper) == ("gpu_target_faster", "undecided")


def test_the_calls_from_which_the_gpus_start_pays():
    """Start-up 5.2 s against 2.7 s; first calls 1 and 2 s; then 0.1 against 0.5 s a call."""
    gpu_row = build_row([0.1] * 8, cold_seconds=1.0, phases=Phases(host_to_device_seconds=0.25))
    cpu_row = build_row([0.5] * 8, cold_seconds=2.0)
    run = build_run(
        *(
            build_job(target, [row], marks=build_marks(START, gpu=row is gpu_row))
            for target, row in (("g5.xlarge", gpu_row), ("c5.2xlarge", cpu_row))
        )
    )
    gpu, cpu = group_jobs(run)["blog", "float32"]
    (gpu_samples,), (cpu_samples,) = gpu.samples.values(), cpu.samples.values()
    # Behind by 6.45 - 4.7 s after the first call, 0.4 s a call to win back.
    assert calls_until_gpu_pays(gpu_samples, cpu_samples) == 1 + 5
    assert calls_until_gpu_pays(cpu_samples, gpu_samples) is None
