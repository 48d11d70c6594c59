"""What the report says of trust and cost, in lines."""

import pytest

from batchmark.analysis.comparison import compare
from batchmark.changes.shares import Rate
from batchmark.report.change_records import AlertBoard
from batchmark.report.model import build_report
from batchmark.report.sections import costs, trust
from batchmark.report.studies import stories
from batchmark_job.result.document import Ceiling, Conditions, MeasurementStatus
from tests.builders.own_jobs import CPU, GPU, JobOn
from tests.builders.pairs import two_jobs
from tests.builders.reports import NOON, report_of
from tests.builders.runs import (
    CPU_MEDIANS,
    GPU_MEDIANS,
    LAPTOP_ENVIRONMENT,
    PRICES,
    build_full_job,
    build_lost,
    build_repeats,
    build_row,
    build_run,
)
from tests.builders.scaling_runs import Cluster, sweep


def told_costs(report):
    return dict(costs(report, stories(report)))


def report(repeats=6):
    fields = {"repeats": repeats, "build": build_full_job}
    gpu = build_repeats("g5.xlarge", GPU_MEDIANS, **fields)
    return report_of(build_run(*gpu, *build_repeats("c5.2xlarge", CPU_MEDIANS, **fields)))


def test_noise_and_the_smallest_change_are_ranges_over_rows():
    trusted = dict(trust(report()))
    assert "over 7 rows: repeats for 7" in trusted["Noise from job to job"]
    assert (
        trusted["Smallest change that shows"] == "0.8 % to 1.4 %, found in 95 of 100 cases: with 6 "
        "repeats, identical jobs may differ by up to 0.8 % (matmul size 5000, float32). 12 repeats "
        "would show about 0.9 %."
    )
    assert "NVIDIA A10G" in trusted["Machines"]
    assert ", with a median of " in trusted["Share of what the machines can do"]
    assert "7 compared rows, checked" in trusted["Correctness"]


def test_disturbed_rows_are_counted_as_rows():
    rows = [build_row((0.1,) * 8, conditions_during=Conditions(cpu_wait_share=0.5))]
    found = dict(trust(report_of(build_run(*two_jobs(rows, rows)))))
    assert found["Disturbed samples"].endswith("other work took CPU time from 1 of 1 row.")


def test_what_one_job_or_noisy_jobs_can_not_tell_is_not_known():
    found = dict(trust(report(repeats=1)))
    assert found["Noise from job to job"] == "28 %, assumed (no calibration)."
    assert (
        found["Smallest change that shows"]
        == "Not known: with 1 repeat, identical jobs may differ by up to 2.7×. Use at least 6 "
        "repeats."
    )
    rows = [[build_row((10.0**n,) * 8)] for n in range(1, 7)]
    jobs = [job for n, row in enumerate(rows, start=1) for job in two_jobs(row, row, repeat=n)]
    found = dict(trust(report_of(build_run(*jobs))))
    text = found["Smallest change that shows"]
    assert text.startswith("Not known: with 6 repeats, identical jobs may differ by up to ")
    assert text.endswith(". Use more repeats, or a quieter machine.")


def test_too_few_whole_jobs_show_no_change_however_quiet():
    few = build_run(*GPU.jobs(repeats=3), *CPU.jobs(repeats=3))
    found = dict(trust(report_of(few)))["Smallest change that shows"]
    assert found.startswith("Not known: with 3 repeats, identical jobs may differ by up to ")
    assert "would show" not in found, "of three jobs' noise too little is known"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("unsettled", ", all unsettled: their times still drift or jump; run again on a quieter "),
        ("failed", "; mostly g5.xlarge: unsettled: it jumps from 1 ms to 3 ms."),
    ],
)
def test_unsettled_rows_share_a_reason(status, said):
    rows = [
        build_row([0.1] * 8, parameters={"size": n}, status=MeasurementStatus(word), reason=reason)
        for n, word, reason in (
            (1, "unsettled", "it jumps from 1 ms to 3 ms"),
            (2, status, "it jumps from 2 ms to 9 ms"),
        )
    ]
    cpu = [build_row([0.1] * 8, parameters={"size": n}) for n in (1, 2)]
    run = build_run(*two_jobs(rows, cpu))
    assert f"2 rows not compared{said}" in dict(trust(report_of(run)))["Correctness"]


@pytest.mark.parametrize(
    ("caches_filled", "why"),
    [(0.1, "whose data fit in a cache"), (20.0, "in which a rate or its ceiling is wrong")],
)
def test_a_rate_above_its_ceiling_is_explained_as_its_warning_does(caches_filled, why):
    row = build_row((1e-4,) * 8, flops=1000, bytes_moved=10**8, caches_filled=caches_filled)
    ceilings = (
        Ceiling(kind="compute", dtype="float32", rate_per_second=1e12, description="torch.mm"),
        Ceiling(kind="copy", dtype=None, rate_per_second=1e11, description="copy of 1 GiB"),
    )
    run = build_run(*two_jobs([row], [row], ceilings=ceilings))
    found = dict(trust(report_of(run)))["Share of what the machines can do"]
    assert found.endswith(f"; above 100 %: 1 row {why}.")


def test_the_detector_is_left_out_until_there_is_an_alert():
    one = report(repeats=1).model_copy(update={"alerts": AlertBoard(lines=())})
    assert "The detector" not in dict(trust(one))
    rated = AlertBoard(lines=(), precision=Rate.of(1, 2))
    assert "The detector" in dict(trust(one.model_copy(update={"alerts": rated})))


def test_lost_jobs_are_named():
    found = dict(trust(report_of(build_run(lost=[build_lost("g5.xlarge", "killed")]))))
    assert found["Lost jobs"] == "1: g5.xlarge, blog: killed."
    assert found["Correctness"] == "No row was measured."


def test_a_start_of_one_step_has_no_longest():
    sides = [JobOn(name, environment=LAPTOP_ENVIRONMENT) for name in ("g5.xlarge", "c5.2xlarge")]
    found = told_costs(report_of(build_run(*(side.job(64, 1, start=None) for side in sides))))
    assert found["Cold start, from STARTING to the end of container start"] == (
        "A job on g5.xlarge took 5.00 s to start; a job on c5.2xlarge took 5.00 s to start. All "
        "steps are listed with its jobs."
    )


def test_costs_by_target_add_up_and_spot_savings_are_against_on_demand():
    one = report()
    found = told_costs(one)
    assert found["g5.xlarge"].endswith("for 6 jobs.")
    assert "container time of all attempts" in found["This run"]
    assert found["Cold start, from submission to the end of warm-up"] == (
        "A job on g5.xlarge took 217 s to start, at least $0.011, 177 s of it for RUNNABLE; a job "
        "on c5.2xlarge took 215 s to start, at least $0.0034, 177 s of it for RUNNABLE. All steps "
        "are listed with its jobs."
    )
    assert "Spot" not in found
    jobs = tuple(
        job.model_copy(update={"purchase_option": "spot", "usd": job.usd / 4})
        for job in one.cost.jobs
    )
    bought = one.model_copy(update={"cost": one.cost.model_copy(update={"jobs": jobs})})
    assert "75 % of it" in told_costs(bought)["Spot"]


def test_costs_of_nodes_count_them_and_name_the_file_system_that_they_leave_out():
    def told(**training):
        jobs = sweep(Cluster(), (1, 2, 4), training=training)
        found = compare(build_run(*jobs), PRICES, file_system_usd_per_hour=2.5)
        return told_costs(build_report(found, created_at=NOON))

    assert told()["g5.xlarge"].endswith(" for 3 jobs on 7 nodes.")
    assert "file system" not in " ".join(told().values())
    read = told(data="files")
    assert read["This run"].endswith("(not included: the file system).")
    assert "The file system is billed, at $2.5 an hour," in read["Not included"]
