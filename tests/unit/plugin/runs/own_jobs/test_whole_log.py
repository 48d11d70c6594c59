"""A log is read until it is whole, as far as that can be known."""

import pytest
from botocore.exceptions import ClientError

from batchmark.runs.own_jobs.lines import NOT_KNOWN, Facts
from batchmark.runs.own_jobs.whole_log import (
    LATEST_SECONDS,
    READ_AGAIN_AFTER_SECONDS,
    SETTLED_SECONDS,
    read_log,
)
from tests.builders.watched_jobs import BEGIN, STOPPED, WHOLE, described, facts, metric, plan
from tests.stand_ins.batch import FakeClients, client_error
from tests.stand_ins.marked_log import MarkedLog


class Reading:
    """What a job's log told that showed these lines one after the other, and the pauses."""

    def __init__(
        self, *shown, own_job=None, job=None, on_aws=True, now=STOPPED / 1000 + 11, failures=()
    ):
        logs = MarkedLog(*shown)
        logs.failures = list(failures)
        self.slept = []
        self.told = read_log(
            FakeClients(logs=logs),
            own_job or plan(),
            job or described(),
            on_aws=on_aws,
            sleep=self.slept.append,
            clock=lambda: now,
        )


def test_a_log_that_is_whole_is_read_once():
    reading = Reading(WHOLE, [])
    assert reading.told.facts.command_seconds == 80.25
    assert reading.slept == []


def test_a_log_whose_end_comes_late_is_read_again():
    reading = Reading(WHOLE[:3], WHOLE[:6], WHOLE)
    assert reading.told.facts.command_seconds == 80.25
    assert reading.slept == list(READ_AGAIN_AFTER_SECONDS[:2])


def test_a_log_whose_end_never_comes_costs_half_a_minute_in_aws_and_nothing_here():
    reading = Reading(WHOLE[:3])
    assert reading.told.facts.command_seconds is None
    assert reading.slept == list(READ_AGAIN_AFTER_SECONDS)
    assert sum(reading.slept) < 30
    assert sum(Reading(WHOLE[:3], on_aws=False).slept) == 0


@pytest.mark.parametrize(
    ("own_job", "job", "lines", "waits"),
    [
        (plan(), described(), WHOLE, False),
        (plan(), described(), WHOLE[:-1], True),  # such as metrics of its file
        (plan(), described(), [], True),
        (plan(check="c"), described("FAILED", code=3), facts(*BEGIN, "end 3 1"), True),
        (plan(check="c"), described("FAILED", code=3), facts(*BEGIN, "end 3 1", "over"), False),
        (plan(), described("FAILED", code=137, isTerminated=True), WHOLE[:3], False),
        (plan(), described("FAILED", code=None), WHOLE[:3], False),
    ],
)
def test_only_what_is_to_come_is_waited_for(own_job, job, lines, waits):
    assert bool(Reading(lines, own_job=own_job, job=job).slept) is waits


@pytest.mark.parametrize(
    ("on_aws", "since_stop", "slept"),
    [
        (True, 4.0, [SETTLED_SECONDS - 4.0]),
        (True, -99.0, [SETTLED_SECONDS]),  # by a clock that is behind
        (True, SETTLED_SECONDS, []),
        (False, 0.0, []),
    ],
)
def test_a_job_without_a_wrapper_is_read_a_moment_after_its_end(on_aws, since_stop, slept):
    now = STOPPED / 1000 + since_stop
    reading = Reading([metric()], own_job=plan(shell=False), on_aws=on_aws, now=now)
    assert reading.slept == pytest.approx(slept)
    assert len(reading.told.metrics) == 1


def test_a_job_without_a_wrapper_tells_no_facts():
    reading = Reading([*WHOLE, *facts("gpu Fast, 1, 2")], own_job=plan(shell=False))
    assert reading.told.facts == Facts()


def test_a_log_that_may_not_be_read_tells_nothing(caplog):
    reading = Reading(WHOLE, failures=[client_error("AccessDeniedException", 403)] * 9)
    assert (reading.told, reading.slept) == (NOT_KNOWN, [])
    assert "AccessDeniedException" in caplog.text


def test_a_log_that_does_not_answer_now_is_for_the_next_try():
    with pytest.raises(ClientError, match="ThrottlingException"):
        Reading(WHOLE, failures=[client_error("ThrottlingException")])


@pytest.mark.parametrize(
    "where",
    [
        {"job": described(container={"logStreamName": None})},
        {"job": described(container={"logConfiguration": {"logDriver": "fluentd"}})},
        {"failures": [client_error("ResourceNotFoundException", 400)]},
    ],
)
def test_a_log_that_is_not_in_cloudwatch_or_not_any_more_tells_nothing(where):
    reading = Reading(WHOLE, **where)
    assert (reading.told, reading.slept) == (NOT_KNOWN, [])


def test_what_has_not_come_a_minute_after_the_stop_does_not_come():
    assert Reading(WHOLE[:3], now=STOPPED / 1000 + LATEST_SECONDS + 1).slept == []
