"""Whether an own job's result counts, and what its figures are to be read with care for."""

import pytest

from batchmark.runs.own_jobs.check import (
    ENDED_BY_ITSELF,
    SILENT,
    TIMED_OUT,
    exit_code,
    owners_check,
    was_stopped,
)
from batchmark.runs.own_jobs.doubts import doubts_of_log
from batchmark.runs.own_jobs.lines import NOT_KNOWN, read_lines
from tests.builders.watched_jobs import (
    BEGIN,
    END,
    SHA256,
    awslogs,
    described,
    facts,
    marked,
    metric,
    plan,
    told,
)

OTHER = "ef" * 32
CHECK_FAILED = "its check ended with exit code 7"
OWN = " (the command's own error)"


def begun(*texts):
    return read_lines(marked(*facts("begin 1 0", *texts)))


def judged(own_job, job, *texts):
    return owners_check(own_job, job, begun(*texts))


def test_without_any_wish_of_the_owner_the_exit_code_of_the_command_counts():
    check = judged(plan(), described())
    assert (check.kind, check.passed, check.detail) == ("exit_code", True, None)
    assert exit_code(described("FAILED", code=7), begun("end 0 1").facts) == 0
    assert exit_code(described("FAILED", code=7), begun().facts) == 7
    assert exit_code(described("FAILED", code=None), begun().facts) is None


@pytest.mark.parametrize(
    ("job", "detail"),
    [
        (described("FAILED", code=1), f"exit code 1{OWN}"),
        (described("FAILED", code=3, statusReason=ENDED_BY_ITSELF), f"exit code 3{OWN}"),
        (described("FAILED", code=137, statusReason=TIMED_OUT), f"exit code 137; {TIMED_OUT}"),
        (described("FAILED", code=127), "exit code 127 (the command was not found)"),
        (described("FAILED", code=None, statusReason="by a user"), "no exit code; by a user"),
        (
            described("FAILED", code=137, container={"reason": "OutOfMemoryError: killed"}),
            "exit code 137 (killed, usually out of memory); OutOfMemoryError: killed",
        ),
    ],
)
def test_a_job_that_failed_says_how_it_ended(job, detail):
    check = judged(plan(check="true"), job, "end 3 1")
    assert (check.kind, check.passed, check.detail) == ("exit_code", False, detail)


@pytest.mark.parametrize(
    ("job", "said", "detail"),
    [
        (described(), ["check 0"], None),
        (described("FAILED", code=7), ["check 7"], CHECK_FAILED),
        (described(), ["check 7"], CHECK_FAILED),  # whatever Batch says
        (described(), None, "its log does not show how its check ended"),
    ],
)
def test_a_check_has_the_word(job, said, detail):
    known = NOT_KNOWN if said is None else begun("end 0 1", *said)
    check = owners_check(plan(check="./check"), job, known)
    assert (check.kind, check.passed, check.detail) == ("command", detail is None, detail)


def test_a_job_that_succeeded_below_its_shell_passed_though_its_log_has_no_end():
    assert judged(plan(check="./check"), described(), "end 0 1").passed
    check = judged(plan(output="out", output_sha256=SHA256), described(), "end 0 1")
    assert (check.kind, check.passed, check.output_sha256) == ("checksum", True, None)
    check = judged(plan(output="out"), described(), "end 0 1")
    assert (check.passed, check.detail) == (
        False,
        "its log does not contain the SHA-256 of its output out",
    )


SAYS_NOTHING = read_lines(marked("BATCHMARK_JOB cpu Fast"))


def test_a_command_that_did_not_run_below_its_shell_is_not_the_one_that_was_meant():
    check = owners_check(plan(), described(), SAYS_NOTHING)
    assert (check.kind, check.passed, check.detail) == ("exit_code", False, SILENT)
    failed = owners_check(plan(), described("FAILED", code=2), SAYS_NOTHING)
    assert failed.detail == f"exit code 2{OWN}; {SILENT}"
    stopped = owners_check(plan(), described("FAILED", code=137, isTerminated=True), SAYS_NOTHING)
    assert stopped.detail == "exit code 137"


@pytest.mark.parametrize(
    ("job", "own_job", "said", "detail"),
    [
        (described(), plan(), ["over"], None),
        (described(), plan(check="true"), ["end 0 1", "check 0", "over"], None),
        (described(), plan(output="out"), ["end 0 1", f"sha256 {SHA256}"], None),
        (described("FAILED", code=3), plan(), ["end 3 1", "over"], f"exit code 3{OWN}"),
        (described("FAILED", code=7), plan(check="false"), ["end 0 1", "check 7"], CHECK_FAILED),
    ],
)
def test_no_entrypoint_is_blamed_where_a_log_lost_its_beginning_alone(job, own_job, said, detail):
    check = owners_check(own_job, job, read_lines(marked(*facts(*said))))
    assert (check.passed, check.detail) == (detail is None, detail)


@pytest.mark.parametrize(
    ("own_job", "said"), [(plan(), NOT_KNOWN), (plan(shell=False), SAYS_NOTHING)]
)
def test_the_exit_code_counts_where_no_log_could_tell_of_a_shell(own_job, said):
    assert owners_check(own_job, described(), said).passed
    assert owners_check(own_job, described("FAILED", code=2), said).detail == f"exit code 2{OWN}"


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
            (
                "the SHA-256 of its output out is unknown: the image has no sha256sum, or the "
                "file can't be read"
            ),
        ),
        (SHA256, "junk", "its log does not contain the SHA-256 of its output out"),
    ],
)
def test_an_output_has_the_checksum_that_its_owner_wants(wanted, said, detail):
    own_job = plan(output="out", output_sha256=wanted)
    job = described("FAILED", code=1) if detail else described()
    check = judged(own_job, job, "end 0 1", f"sha256 {said}")
    assert (check.kind, check.passed, check.detail) == ("checksum", detail is None, detail)
    assert check.output_sha256 == (SHA256 if said == SHA256 else None)
    assert check.is_wanted_sha256 == (wanted is not None)


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


OUT_OF_MEMORY = {"reason": "OutOfMemoryError: Container killed due to memory usage"}
MAY_DROP = (
    "its log may be incomplete, so metrics may be missing: its driver drops lines "
    "that it can't send in time unless its mode is blocking"
)


def incomplete(part, are="is"):
    return f"its log is incomplete: {part} {are} missing, so metrics may be missing"


LOST_BOTH = incomplete("its beginning and its end", "are")


@pytest.mark.parametrize(
    ("job", "said", "doubts"),
    [
        (described(), told(metric()), []),
        (described(), read_lines(marked(*facts(*BEGIN), metric())), [incomplete("its end")]),
        (described(), read_lines(marked(*facts(*BEGIN, "over"))), [incomplete("its end")]),
        (described(), read_lines(marked(metric(), *facts(*END))), [incomplete("its beginning")]),
        (described(container=awslogs()), read_lines(marked(*facts("end 0 1"))), [LOST_BOTH]),
        (described(container=awslogs()), told(metric()), [MAY_DROP]),
        (described(container=awslogs(mode="non-blocking")), told(metric()), [MAY_DROP]),
        (described(container={"logConfiguration": {}}), told(metric()), [MAY_DROP]),
        (described(), NOT_KNOWN, ["its log could not be read, so its metrics are unknown"]),
        # What was killed tells no end.
        *(
            (job, read_lines(marked(*facts(*BEGIN))), [])
            for job in (
                described("FAILED", code=None, isTerminated=True),
                described("FAILED", code=137, statusReason=TIMED_OUT),
                described("FAILED", code=137, container=OUT_OF_MEMORY),
            )
        ),
    ],
)
def test_a_log_that_is_or_may_be_incomplete_is_told(job, said, doubts):
    assert list(doubts_of_log(plan(), job, said)) == doubts


@pytest.mark.parametrize(("container", "doubts"), [(awslogs(), [MAY_DROP]), ({}, [])])
def test_without_a_shell_only_its_log_driver_raises_doubts(container, doubts):
    said = read_lines(marked(metric()))
    assert list(doubts_of_log(plan(shell=False), described(container=container), said)) == doubts
