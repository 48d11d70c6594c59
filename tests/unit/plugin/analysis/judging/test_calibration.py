"""Calibration runs: what they report of each target, and their self-check."""

from batchmark.analysis.judging.calibration import SelfCheck, calibrate
from batchmark.report.pages.table_pages import noise_page
from batchmark_job.result.document import Device, MeasurementStatus
from tests.builders.noise import jobs_of
from tests.builders.reports import printed
from tests.builders.runs import build_job, build_lost, build_row, build_run


def report_of(*jobs, lost=()):
    return calibrate(build_run(*jobs, lost=lost), region=None)


def rendered(report):
    return printed(noise_page(report), width=220)


def test_a_calibration_run_reports_each_target():
    steady = jobs_of([1.0, 1.01, 0.99, 1.02, 1.01, 0.98])
    gpu = jobs_of([0.1, 0.11, 0.1, 0.11], target="g5.xlarge")
    report = report_of(*steady, *gpu, lost=[build_lost("g6.xlarge", "exit code 3")])
    assert [one.table.target for one in report.calibrations] == ["c5.2xlarge", "g5.xlarge"]
    assert report.calibrations[0].self_check == SelfCheck(rows=1, different=())
    assert report.calibrations[1].self_check is None, "4 jobs are too few for two halves"
    assert report.refused == (
        ("g6.xlarge has 0 job(s) with a result (exit code 3); measuring noise requires at least 2"),
    )
    text = rendered(report)
    assert "c5.2xlarge, suite blog, 6 jobs" in text
    assert "matmul size 1000, float32" in text
    assert text.count("Odd repeats against even ones") == 1
    assert "Odd repeats against even ones: 0 of 1 row called different.\n" in text
    assert "No calibration: g6.xlarge has 0 job(s)" in text


def test_a_calibration_lists_what_it_left_out():
    failed = build_row(status=MeasurementStatus.FAILED, reason="relative [error] 0.3")
    report = report_of(*(build_job("c5.2xlarge", [failed], repeat=n) for n in (1, 2)))
    assert "Left out: matmul size 1000, float32: c5.2xlarge: failed: relative [error]" in rendered(
        report
    )


def test_halves_that_differ_are_called_different():
    """Each is steady in itself: noise measured over both would explain any difference."""
    report = report_of(*jobs_of([1.0, 50.0] * 5))
    (calibration,) = report.calibrations
    assert len(calibration.self_check.different) == calibration.self_check.rows == 1
    assert "1 of 1 row called different (matmul size 1000, float32)" in rendered(report)


def test_a_gpu_target_calibrated_on_the_cpu_says_so():
    report = report_of(*jobs_of([1.0, 1.1], target="g5.xlarge", actual_device=Device.CPU))
    (calibration,) = report.calibrations
    assert calibration.notices == (
        "The GPU target g5.xlarge ran on the CPU, so none of the figures describe a GPU.",
    )
    assert calibration.table.fingerprint.device is Device.CPU
    assert rendered(report).startswith("The GPU target g5.xlarge ran on the CPU")
