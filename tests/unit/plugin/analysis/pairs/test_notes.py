"""What is said beside a comparison's figures."""

from batchmark.analysis.comparison import compare
from batchmark.analysis.pairs.notes import WARNINGS, few_whole_jobs_note, undecided_intervals
from batchmark.core.run import InterruptedAttempt
from batchmark_job.result.document import Ceiling
from tests.builders.pairs import CPU_ROWS, GPU_ROWS, calibration, pair_of, two_jobs
from tests.builders.runs import GPU_ENVIRONMENT, PRICES, build_job, build_row, build_run, noisy


def test_a_pair_says_what_replaced_a_spot_job_and_what_was_interrupted():
    gpu, cpu = two_jobs(GPU_ROWS, CPU_ROWS)
    attempt = InterruptedAttempt(
        job_id="spot-job",
        job_attempt=2,
        document_uri="s3://results/spot-job.2.json",
        document_url="https://results.example/spot-job.2.json",
        measured_rows=4,
    )
    changes = {"replaced_job_id": "spot-job", "interrupted": (attempt,)}
    notes = pair_of(gpu.model_copy(update=changes), cpu).notes
    assert [note for note in notes if "spot-job" in note] == [
        f"g5.xlarge, repeat 1: measured by On-Demand job {gpu.job_id} because Spot job spot-job "
        "lost its host in its last attempt.",
        "g5.xlarge, repeat 1: attempt 2 of job spot-job was interrupted; its measurements "
        "(4 rows) are kept in s3://results/spot-job.2.json but not included in the figures.",
    ]


def test_rows_that_a_calibration_lacks_are_pointed_out():
    rows = [build_row(noisy(1.0)), build_row(noisy(2.0), parameters={"size": 5})]
    tables = [calibration("g5.xlarge"), calibration("c5.2xlarge", parameters={"size": 7})]
    (pair,) = compare(build_run(*two_jobs(rows, rows)), PRICES, tables).pairs
    assert (
        "g5.xlarge: its noise calibration from 2026-11-20 (4 jobs, run run) does not cover 1 of "
        "its 2 rows or covers them only with different code: matmul size 5, float32."
    ) in pair.notes
    assert any(
        "does not cover 2 of its 2 rows" in n and "float32 and others" in n for n in pair.notes
    )


def test_a_calibration_from_before_a_change_is_not_used_and_says_why():
    environment = GPU_ENVIRONMENT.model_copy(update={"driver_version": "590.10.01"})
    gpu = build_job("g5.xlarge", [build_row(noisy(0.5))], environment=environment)
    cpu = build_job("c5.2xlarge", [build_row(noisy(1.0))])
    tables = [calibration("g5.xlarge"), calibration("c5.2xlarge")]
    (pair,) = compare(build_run(gpu, cpu), PRICES, tables).pairs
    assert pair.rows[0].noise.source == "assumed"
    assert [one.target for one in pair.calibrations] == ["c5.2xlarge"]
    assert (
        "g5.xlarge: its noise calibration from 2026-11-20 does not apply: driver major was 580 "
        "and is now 590. Run noise_calibration again."
    ) in pair.notes


def test_a_run_without_a_cpu_target_says_what_is_missing():
    comparison = compare(build_run(build_job("g5.xlarge", GPU_ROWS)), PRICES)
    assert comparison.pairs == ()
    assert "the run has no CPU target" in comparison.notices[0]
    assert "no GPU and no CPU target" in compare(build_run(), PRICES).notices[0]


def test_few_repeats_are_pointed_out():
    assert "only one job" in pair_of(*two_jobs(GPU_ROWS, CPU_ROWS)).notes[0]
    repeats = [job for n in range(1, 7) for job in two_jobs(GPU_ROWS, CPU_ROWS, repeat=n)]
    assert pair_of(*repeats).notes == (f"In 1 of 1 row {WARNINGS['unsettled']}.",)
    assert "only 5 jobs" in pair_of(*repeats[:10]).notes[0]
    assert "only 3 jobs" in pair_of(*repeats[:6]).notes[0]
    assert few_whole_jobs_note(1, of=1, start="cold").startswith(
        "A target has only one job to go by. "
    )
    assert few_whole_jobs_note(5, of=6).startswith(
        "A target has only 5 jobs to go by. Use at least 6 "
    )


def test_rows_whose_interval_leaves_out_1_without_a_verdict_are_explained_once():
    gpu = [build_row((0.1,) * 8, parameters={"size": n}) for n in (1, 2, 3)]
    cpu = [
        build_row((seconds,) * 8, parameters={"size": n})
        for n, seconds in ((1, 0.23), (2, 0.11), (3, 5.0))
    ]
    pair = pair_of(*two_jobs(gpu, cpu))
    assert [row.verdict for row in pair.rows] == ["undecided", "undecided", "gpu_target_faster"]
    assert [row.speedup.interval.low > 1 for row in pair.rows] == [True, False, True]
    in_time = undecided_intervals(pair.rows, dollars=False)
    assert in_time == (
        "In 1 of 3 rows, the 95 % interval excludes 1×, which is not enough for a verdict: by "
        "chance alone, this happens in 1 of 20 rows. Because a run can have many rows, the "
        "threshold for a verdict is 1 in 200."
    )
    # By price the second one, 0.37 times as efficient, is such a row, too.
    assert [row.cheaper for row in pair.rows[:2]] == ["undecided", "undecided"]
    assert in_time.replace("In 1", "In 2") in pair.notes
    assert undecided_intervals(pair.rows[2:], dollars=True) is None


def test_a_rate_well_above_its_ceiling_is_warned_of_and_says_what_to_do():
    def with_ceiling(rate):
        row = build_row((1e-4,) * 8, flops=10**10, bytes_moved=1000)
        ceilings = (
            Ceiling(kind="compute", dtype="float32", rate_per_second=rate, description="torch.mm"),
            Ceiling(kind="copy", dtype=None, rate_per_second=1e11, description="copy of 1 GiB"),
        )
        return pair_of(*two_jobs([row], [row], ceilings=ceilings))

    (row,) = with_ceiling(1e14 / 1.2).rows
    told = "its rate is 120 % of the ceiling measured in the same jobs, so one of the two is wrong"
    assert row.warnings == (f"g5.xlarge: {told}", f"c5.2xlarge: {told}")
    assert with_ceiling(1e14 / 1.02).rows[0].warnings == ()
    (note,) = [note for note in with_ceiling(1e12).notes if "exceeds the ceiling" in note]
    assert note.startswith("In 1 of 1 row ")
    assert "run again with nothing else on the machine" in note


def test_what_limits_many_rows_is_said_once_with_their_number():
    wild = [build_row(noisy(1.0, spread=0.3), parameters={"size": n}) for n in (1, 2)]
    calm = [build_row(noisy(1.0, spread=0.01), parameters={"size": 3})]
    notes = pair_of(*two_jobs([*wild, *calm], [*wild, *calm])).notes
    assert [note for note in notes if note.startswith("In ")] == [
        f"In 2 of 3 rows {WARNINGS['unsettled']}."
    ]
