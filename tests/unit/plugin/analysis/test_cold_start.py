"""Where a job's time and money go before it is steady."""

from datetime import timedelta

import pytest

from batchmark.analysis.cold_start import NO_INSTANCE
from batchmark_job.result.document import Marks
from tests.builders.pairs import pair_of
from tests.builders.runs import (
    LAPTOP_ENVIRONMENT,
    ON_LAPTOP,
    START,
    build_full_job,
    build_job,
    build_marks,
    build_row,
)

ROWS = [build_row([0.1] * 8)]
CPU_JOB = build_full_job("c5.2xlarge", ROWS)
BEGUN = START + timedelta(minutes=1)  # of the first repeat's container
FROM_INPUTS_ON = {"inputs": 0.4, "first call": 0.4, "trial": 0.4, "warm-up": 0.2}


def cold_start(*gpu_jobs):
    return pair_of(*gpu_jobs, CPU_JOB).cold_starts[0]


def told(**fields):
    return build_full_job("g5.xlarge", ROWS, **fields)


def steps(found):
    return {step.name: step.seconds for step in found.steps}


def test_every_step_by_hand():
    found = cold_start(told())
    assert steps(found) == pytest.approx(
        {
            "submission": 1.0,
            "RUNNABLE": 27.0,
            "STARTING": 2.0,
            "image pull": 26.0,
            "container start": 3.0,
            "process start": 1.4,
            "imports": 2.7,
            "device ready (CUDA start-up)": 2.5,
        }
        | FROM_INPUTS_ON
    )
    assert found.seconds == pytest.approx(sum(step.seconds for step in found.steps)) == 67
    assert found.notes == ()


@pytest.mark.parametrize(
    ("pull", "starting", "billed_from", "seconds"),
    [
        (True, True, "STARTING", 39.0),
        (True, False, "image pull", 37.0),
        (False, True, "STARTING, image pull, container start", 39.0),
        (False, False, "process start", 8.0),
    ],
)
def test_dollars_count_from_where_the_instance_is_known_to_run(
    pull, starting, billed_from, seconds
):
    """Batch has placed a job that is STARTING, and images are pulled on the instance."""
    none = {} if pull else {"image_pull_started_at": None, "image_pull_stopped_at": None}
    fields = {"marks": build_marks(BEGUN, gpu=True, **none)}
    found = cold_start(told(**fields if starting else fields | {"starting_at": None}))
    assert found.billed_from == billed_from
    assert found.billed_seconds == pytest.approx(seconds)
    assert found.usd == pytest.approx(seconds * 1.006 / 3600)
    usd = {step.name: step.usd for step in found.steps}
    assert next(iter(usd.values())) is None
    assert sum(value for value in usd.values() if value) == pytest.approx(found.usd)
    assert usd["imports"] == pytest.approx(2.7 * 1.006 / 3600)


def test_outside_ec2_nothing_boots_or_bills_and_the_wait_is_left_out():
    found = cold_start(told(**ON_LAPTOP))
    assert next(iter(steps(found))) == "STARTING"
    assert "device ready" in steps(found)  # nothing of CUDA started
    assert found.seconds == pytest.approx(67 - 28)  # submission and RUNNABLE
    assert (found.billed_from, found.billed_seconds, found.usd) == (None, 0, None)
    assert all(step.usd is None for step in found.steps)
    assert found.notes == (NO_INSTANCE,)


@pytest.mark.parametrize(
    "job",
    [
        told(job_attempt=2),
        build_job("g5.xlarge", ROWS, environment=LAPTOP_ENVIRONMENT),
        told(**ON_LAPTOP, starting_at=None, marks=Marks(process_started_at=BEGUN)),
    ],
    ids=["no first attempt", "first version outside EC2", "a bare process"],
)
def test_a_target_of_which_no_step_is_known_has_no_cold_start(job):
    assert [one.target for one in pair_of(job, CPU_JOB).cold_starts] == ["c5.2xlarge"]


def test_missing_moments_are_merged_into_the_next_step_and_named():
    pulled = {"image_pull_started_at": None, "image_pull_stopped_at": None}
    marks = build_marks(BEGUN, gpu=True, imported_at=None, **pulled)
    assert steps(cold_start(told(marks=marks, runnable_at=None))) == pytest.approx(
        {
            "submission, RUNNABLE": 28.0,
            "STARTING, image pull, container start": 31.0,
            "process start": 1.4,
            "imports, device ready (CUDA start-up)": 5.2,
        }
        | FROM_INPUTS_ON
    )
    # What one job lacks is left out of all.
    assert "RUNNABLE, STARTING" in steps(cold_start(told(), told(repeat=2, starting_at=None)))


def test_a_document_of_the_first_version_tells_as_far_as_batch_does():
    found = cold_start(build_job("g5.xlarge", ROWS))
    assert steps(found) == {"submission, RUNNABLE, STARTING, image pull, container start": 60.0}
    assert (found.billed_from, found.usd) == (None, None)


def test_clocks_that_differ_make_no_negative_step_and_are_named():
    marks = build_marks(BEGUN, gpu=True, container_started_at=BEGUN + timedelta(seconds=4))
    found = cold_start(told(marks=marks))
    assert steps(found)["process start"] == 0
    assert all(step.seconds >= 0 for step in found.steps)
    assert found.seconds == 67
    assert found.notes == (
        "Clocks differ: in job g5-xlarge-blog-1 the step 'process start' ends 3.6 s before it "
        "begins; it counts as 0 s.",
    )  # imports end 0.9 s too early, which is within what events can tell
    # Events have whole seconds, which is no difference of clocks.
    found = cold_start(told(runnable_at=START - timedelta(milliseconds=700)))
    assert steps(found)["submission"] == 0
    assert found.notes == ()


def test_several_jobs_give_medians_and_their_range_without_those_retried():
    slow = build_marks(START + timedelta(minutes=3), gpu=True)
    slow = slow.model_copy(update={"imported_at": slow.imported_at + timedelta(seconds=1)})
    found = cold_start(told(), told(repeat=2), told(repeat=3, marks=slow))
    (imports,) = (step for step in found.steps if step.name == "imports")
    assert (found.jobs, imports.seconds) == (3, pytest.approx(2.7))
    assert (imports.least_seconds, imports.most_seconds) == pytest.approx((2.7, 3.7))
    assert found.seconds == pytest.approx(127)
    found = cold_start(told(), told(repeat=2, job_attempt=2))
    assert found.jobs == 1
    assert found.notes == ("1 of 2 jobs are not included: they were retried.",)
