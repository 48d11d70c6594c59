"""Whether an own job's result counts."""

import pytest

from batchmark.runs.own_jobs.check import (
    ENDED_BY_ITSELF,
    TIMED_OUT,
    exit_code,
    owners_check,
    was_stopped,
)
from batchmark.runs.own_jobs.lines import read_lines
from tests.builders.watched_jobs import SHA256, described, facts, marked, plan

OTHER = "ef" * 32


def facts_of(*texts):
    return read_lines(marked(*facts(*texts))).facts


def judged(own_job, job, *texts):
    return owners_check(own_job, job, facts_of(*texts))


def test_without_any_wish_of_the_owner_the_exit_code_counts():
    check = judged(plan(), described())
    assert (check.kind, check.passed, check.detail) == ("exit_code", True, None)


@pytest.mark.parametrize(
    ("job", "detail"),
    [
        (described("FAILED", code=3, statusReason=ENDED_BY_ITSELF), "exit code 3"),
        (described("FAILED", code=137, statusReason=TIMED_OUT), f"exit code 137; {TIMED_OUT}"),
        (described("FAILED", code=None, statusReason="by a user"), "no exit code; by a user"),
        (
            described("FAILED", code=137, container={"reason": "OutOfMemoryError: killed"}),
            "exit code 137; OutOfMemoryError: killed",
        ),
    ],
)
def test_a_job_that_failed_says_how_it_ended(job, detail):
    check = judged(plan(check="true"), job, "end 3 1")
    assert (check.kind, check.passed, check.detail) == ("exit_code", False, detail)


def test_a_check_that_failed_made_the_job_fail():
    check = judged(plan(check="./check"), described("FAILED", code=7), "end 0 1", "check 7")
    assert (check.kind, check.passed) == ("command", False)
    assert check.detail == "its check ended with exit code 7"


def test_a_check_counts_whatever_batch_says():
    check = judged(plan(check="./check"), described(), "end 0 1", "check 7")
    assert (check.kind, check.passed) == ("command", False)


def test_a_check_of_which_nothing_is_known_has_not_passed():
    check = judged(plan(check="./check"), described(), "end 0 1")
    assert (check.kind, check.passed) == ("command", False)
    assert check.detail == "its log does not tell how its check ended"


def test_a_check_that_passed():
    check = judged(plan(check="./check"), described(), "end 0 1", "check 0")
    assert (check.kind, check.passed) == ("command", True)


@pytest.mark.parametrize(
    ("wanted", "said", "detail"),
    [
        (None, SHA256, None),
        (SHA256.upper(), SHA256, None),
        (OTHER, SHA256, f"its output out has SHA-256 {SHA256}, not {OTHER}"),
        (None, "missing", "its output out is missing"),
        (
            SHA256,
            "unknown",
            "the SHA-256 of its output out is not known: its image has no sha256sum, or may not "
            "read the file",
        ),
        (SHA256, "junk", "its log does not tell the SHA-256 of its output out"),
    ],
)
def test_an_output_has_the_checksum_that_its_owner_wants(wanted, said, detail):
    own_job = plan(output="out", output_sha256=wanted)
    status = "FAILED" if detail else "SUCCEEDED"
    check = judged(
        own_job, described(status, code=int(status == "FAILED")), "end 0 1", f"sha256 {said}"
    )
    assert (check.kind, check.passed, check.detail) == ("checksum", detail is None, detail)
    assert check.output_sha256 == (SHA256 if said == SHA256 else None)


def test_a_job_that_batch_failed_for_no_reason_of_its_own_did_not_pass():
    check = judged(plan(), described("FAILED", code=1), "end 0 1")
    assert (check.kind, check.passed, check.detail) == ("exit_code", False, "exit code 1")


def test_the_exit_code_is_the_commands_where_the_wrapper_told_it():
    assert exit_code(described("FAILED", code=7), facts_of("end 0 1")) == 0
    assert exit_code(described("FAILED", code=7), facts_of()) == 7
    assert exit_code(described("FAILED", code=None), facts_of()) is None


@pytest.mark.parametrize(
    ("fields", "stopped"),
    [
        ({}, False),
        ({"statusReason": ENDED_BY_ITSELF}, False),
        ({"statusReason": TIMED_OUT}, True),
        ({"statusReason": "Host EC2 (instance i-0f) terminated."}, True),
        ({"isTerminated": True}, True),
        ({"isCancelled": True}, True),
    ],
)
def test_whether_something_ended_a_job(fields, stopped):
    assert was_stopped(described("FAILED", **fields)) is stopped
