"""What an own job's figures are to be read with care for."""

import pytest

from batchmark.runs.own_jobs.check import TIMED_OUT
from batchmark.runs.own_jobs.doubts import doubts_of_log
from batchmark.runs.own_jobs.lines import NOT_KNOWN, read_lines
from tests.builders.watched_jobs import (
    BEGIN,
    END,
    awslogs,
    described,
    facts,
    marked,
    metric,
    plan,
    told,
)

OUT_OF_MEMORY = {"reason": "OutOfMemoryError: Container killed due to memory usage"}
MAY_DROP = (
    "its log may be incomplete, so metrics may be missing: its driver drops lines "
    "that it can't send in time unless its mode is blocking"
)


def incomplete(part, are="is"):
    return f"its log is incomplete: {part} {are} missing, so metrics may be missing"


@pytest.mark.parametrize(
    ("job", "said", "doubts"),
    [
        (described(), told(metric()), []),
        (described(), read_lines(marked(*facts(*BEGIN), metric())), [incomplete("its end")]),
        (described(), read_lines(marked(*facts(*BEGIN, "over"))), [incomplete("its end")]),
        (described(), read_lines(marked(metric(), *facts(*END))), [incomplete("its beginning")]),
        (
            described(container=awslogs()),
            read_lines(marked(*facts("end 0 1"))),
            [incomplete("its beginning and its end", "are")],
        ),
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
