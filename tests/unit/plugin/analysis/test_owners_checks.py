"""Which own jobs count, by their owner's word."""

import pytest

from batchmark.analysis.owners_checks import check_problems, has_valid_results, size_of
from batchmark_job.result.document import MeasurementStatus
from tests.builders.own_jobs import CPU, GPU, LARGE, SMALL, JobOn, failed, with_output
from tests.builders.runs import build_job, build_row

AT_SMALL, AT_LARGE = (("size", SMALL),), (("size", LARGE),)
ONE, OTHER = "aa" * 32, "bb" * 32
FAILED = failed("it ended with 3", "exit_code")


def interrupted(job):
    rows = [
        row.model_copy(update={"status": MeasurementStatus.INTERRUPTED})
        for row in job.document.measurements
    ]
    return job.with_document(job.document.model_copy(update={"measurements": tuple(rows)}))


def test_the_size_is_the_same_in_all_rows_of_a_job():
    whole, metric = GPU.job(SMALL, start="cold").document.measurements
    assert whole.parameters != metric.parameters
    assert size_of(whole.parameters) == size_of(metric.parameters) == AT_SMALL
    assert size_of({"start": "warm"}) == ()


def test_a_job_of_another_suite_counts_whatever_became_of_its_rows():
    broken = build_row((), status=MeasurementStatus.FAILED, reason="no memory", cold_seconds=None)
    assert has_valid_results(build_job("g5.xlarge", [broken]))
    assert has_valid_results(GPU.job())
    assert not has_valid_results(GPU.job(check=FAILED))


@pytest.mark.parametrize(
    ("jobs", "problem"),
    [
        (GPU.jobs(repeats=3), None),
        ([*GPU.jobs(repeats=2), GPU.job(repeat=3, check=FAILED)], "1 of 3 jobs failed: it ended"),
        (
            [GPU.job(repeat=1, check=FAILED), GPU.job(repeat=2, check=failed("wrong sum"))],
            "2 of 2 jobs failed: it ended with 3; wrong sum",
        ),
        ([GPU.job(repeat=1), interrupted(GPU.job(repeat=2, check=FAILED))], None),
        (
            [GPU.job(repeat=n, check=with_output(sha)) for n, sha in enumerate((ONE, OTHER), 1)],
            "its outputs differ from job to job",
        ),
    ],
)
def test_a_sides_jobs_of_a_size_are_doubtful_together(jobs, problem):
    found = check_problems({"g5.xlarge": [*jobs, GPU.job(LARGE)]})["g5.xlarge"]
    assert found.keys() == ({AT_SMALL} if problem else set())
    assert problem is None or found[AT_SMALL].startswith(problem)


def test_sides_must_leave_the_same_output_at_each_size_or_that_whose_checksum_was_given():
    gpu = [GPU.job(size, check=with_output(ONE)) for size in (SMALL, LARGE)]
    cpu = [CPU.job(SMALL, check=with_output(ONE)), CPU.job(LARGE, check=with_output(OTHER))]
    problems = check_problems({"g5.xlarge": gpu, "c5.2xlarge": cpu})
    told = "g5.xlarge has aaaaaaaaaaaa, c5.2xlarge has bbbbbbbbbbbb"
    differ = {AT_LARGE: f"the sides' outputs differ; by SHA-256, {told}"}
    assert problems == {"g5.xlarge": differ, "c5.2xlarge": differ}
    gpu, cpu = (
        JobOn(target).job(check=with_output(sha, is_wanted_sha256=True))
        for target, sha in (("g5.xlarge", ONE), ("c5.2xlarge", OTHER))
    )
    assert check_problems({"gpu": [gpu], "cpu": [cpu]}) == {"gpu": {}, "cpu": {}}


def test_a_side_with_a_problem_of_its_own_makes_no_other_doubtful():
    bad = [GPU.job(repeat=n, check=with_output(f"{n:064x}")) for n in (1, 2)]
    problems = check_problems({"g5.xlarge": bad, "c5.2xlarge": [CPU.job(check=with_output(ONE))]})
    assert problems["g5.xlarge"] == {AT_SMALL: "its outputs differ from job to job"}
    assert problems["c5.2xlarge"] == {}
