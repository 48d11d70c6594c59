"""Which targets of a run are compared, and by which calibrations."""

import pytest

from batchmark.analysis.comparison import compare
from batchmark.runs.document_files import collected
from batchmark_job.result.document import Device
from tests.builders.pairs import CPU_ROWS, GPU_ROWS, calibration, two_jobs
from tests.builders.runs import (
    CPU_ENVIRONMENT,
    PRICES,
    build_full_job,
    build_job,
    build_lost,
    build_row,
    build_run,
    noisy,
)


def test_a_calibration_of_its_dtype_decides_what_assumed_noise_left_open():
    jobs = two_jobs([build_row(noisy(0.5))], [build_row(noisy(1.0))])
    tables = [calibration("g5.xlarge"), calibration("c5.2xlarge")]
    (pair,) = compare(build_run(*jobs), PRICES, tables).pairs
    assert (pair.rows[0].verdict, pair.rows[0].noise.source) == ("gpu_target_faster", "calibration")
    assert pair.rows[0].noise.floor == pytest.approx(tables[0].rows[0].floor)
    assert pair.calibrations[0].model_dump() == {
        "target": "g5.xlarge",
        "run_id": "run",
        "created_at": tables[0].created_at,
        "jobs": 4,
    }
    assert [one.target for one in pair.calibrations] == ["g5.xlarge", "c5.2xlarge"]
    assert (
        "g5.xlarge: its noise calibration from 2026-11-20 (4 jobs, run run) covers all of its rows."
    ) in pair.notes
    table = calibration("g5.xlarge").model_copy(update={"dtype": "bfloat16"})
    (pair,) = compare(build_run(*jobs), PRICES, [table]).pairs
    assert (pair.rows[0].noise.source, pair.calibrations) == ("assumed", ())


def test_documents_have_the_same_figures_in_a_report_and_listed_as_files():
    """Files are in another order than the plan's jobs, and tell no id of theirs."""

    def job(target, number):
        rows = [
            build_row(noisy(5.0 * size, seed=number), parameters={"size": size}) for size in (1, 2)
        ]
        return build_full_job(target, rows, repeat=number)

    planned = [
        job(target, number) for target in ("g5.xlarge", "c5.2xlarge") for number in range(1, 8)
    ]
    listed = [collected(job.document, 8 - job.planned.repeat) for job in planned]
    (pair,), (again,) = (compare(build_run(*jobs), PRICES).pairs for jobs in (planned, listed))
    assert pair.crossovers
    assert pair.crossovers == again.crossovers
    for row, other in zip(pair.rows, again.rows, strict=True):
        ours, theirs = ((one.gpu.median_seconds, one.cpu.median_seconds) for one in (row, other))
        assert (row.speedup, ours) == (other.speedup, theirs)


def test_same_samples_give_the_same_comparison_whoever_the_rival():
    cpu = build_job("c5.2xlarge", [build_row(noisy(1.0))])
    g5 = build_job("g5.xlarge", [build_row(noisy(0.1))])
    g6 = build_job("g6.xlarge", [build_row(noisy(0.2))])
    first = compare(build_run(g5, g6, cpu), PRICES)
    assert compare(build_run(g5, g6, cpu), PRICES) == first
    against_g5, against_g6 = first.pairs
    assert against_g5.rows[0].cpu == against_g6.rows[0].cpu


def test_a_gpu_target_on_the_cpu_is_flagged():
    fallen = build_job("g4dn.xlarge", GPU_ROWS, actual_device=Device.CPU)
    real = build_job("g5.xlarge", GPU_ROWS)
    cpu = build_job("c5.2xlarge", CPU_ROWS)

    comparison = compare(build_run(fallen, cpu), PRICES)
    assert comparison.pairs[0].cpu_fallback
    assert comparison.pairs[0].label == "g4dn.xlarge (ran on the CPU) against c5.2xlarge"
    assert comparison.notices == (
        "The GPU target g4dn.xlarge ran on the CPU: no CUDA device was found. "
        "None of the figures here describe a GPU.",
    )
    mixed = compare(build_run(fallen, real, cpu), PRICES)
    assert [pair.cpu_fallback for pair in mixed.pairs] == [True, False]
    assert mixed.notices[0].endswith("None of the figures shown for it describe a GPU.")
    assert compare(build_run(real, cpu), PRICES).notices == ()


def test_figures_of_a_laptop_are_no_instances_of_any_target():
    here = CPU_ENVIRONMENT.model_copy(update={"instance_type": None})
    cpu = build_job("c5.2xlarge", CPU_ROWS, environment=here)
    note, *_ = compare(build_run(cpu), PRICES).notices
    assert note.startswith(f"The target ran on one machine ({here.cpu_model}, ")
    assert note.endswith(", not on EC2: none of the figures here describe a c5.2xlarge.")
    other = build_job("c7i.2xlarge", CPU_ROWS)
    assert "not on EC2" not in " ".join(compare(build_run(cpu, other), PRICES).notices)


def test_a_target_whose_jobs_were_lost_is_refused_with_the_reason():
    lost = build_lost("c5.2xlarge", "exit code 3")
    run = build_run(build_job("g5.xlarge", GPU_ROWS), lost=[lost])
    comparison = compare(run, PRICES)
    assert comparison.pairs[0].refused == "c5.2xlarge has no result: exit code 3"
    assert comparison.lost == (lost,)


def test_suites_are_paired_apart():
    jobs = [job for suite in ("blog", "sam") for job in two_jobs(GPU_ROWS, CPU_ROWS, suite=suite)]
    assert [pair.suite for pair in compare(build_run(*jobs), PRICES).pairs] == ["blog", "sam"]
