"""What a job waits for, and whether it is tried again."""

from types import SimpleNamespace

import pytest
from moto.batch.exceptions import ClientException

from local_cloud.batch.jobs.dependencies import check, prerequisites
from local_cloud.batch.jobs.retry import AttemptEnd, matches, should_retry

CHILDREN = [SimpleNamespace(job_id=id_) for id_ in "abc"]
OTHERS = {"array": SimpleNamespace(), "plain": SimpleNamespace()}
SEQUENTIAL = [{"type": "SEQUENTIAL"}]
ON_A_JOB = [{"jobId": "plain", "type": "SEQUENTIAL"}]  # is a plain dependency


@pytest.mark.parametrize(
    ("dependencies", "siblings", "awaited"),
    [
        (SEQUENTIAL, CHILDREN[:2], CHILDREN[1:2]),
        (SEQUENTIAL, [], []),
        ([{"jobId": "array"}, {"jobId": "plain"}], [], list(OTHERS.values())),
        (ON_A_JOB, [], [OTHERS["plain"]]),
        (ON_A_JOB, CHILDREN[:2], [OTHERS["plain"]]),
    ],
)
def test_a_job_waits_for_all_it_names_or_for_the_sibling_before_it(dependencies, siblings, awaited):
    check(dependencies, 3, OTHERS.get)
    assert prerequisites(dependencies, siblings, OTHERS.get) == awaited


@pytest.mark.parametrize(
    ("dependencies", "message"),
    [
        (SEQUENTIAL, "SEQUENTIAL is valid only for array jobs"),
        ([{"jobId": "nothing", "type": "SEQUENTIAL"}], "nothing does not exist"),
        ([{"jobId": "nothing"}], "nothing does not exist"),
        ([{"jobId": "plain"}] * 21, "at most 20"),
        ([{"jobId": "array", "type": "N_TO_N"}], "does not support N_TO_N dependencies"),
    ],
)
def test_impossible_dependencies_are_refused(dependencies, message):
    check(ON_A_JOB, None, OTHERS.get)
    with pytest.raises((ValueError, ClientException), match=message):
        check(dependencies, None, OTHERS.get)


FAILED = AttemptEnd(exit_code=7, reason=None, status_reason="Essential container in task exited")
RECLAIMED = AttemptEnd(
    exit_code=None, reason=None, status_reason="Host EC2 (instance i-1) terminated."
)
NOT_STARTED = AttemptEnd(
    exit_code=None, reason="CannotPullContainerError: x", status_reason="Task failed to start"
)


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("7", "7", True),
        ("7", "70", False),
        ("7*", "70", True),
        ("*", "anything", True),
        ("*", None, True),
        ("Host EC2*", "Host EC2 terminated", True),
        ("Host EC2", "Host EC2 terminated", False),
        ("host*", "Host EC2", False),
        ("a?", "ab", False),
        ("7", None, False),
    ],
)
def test_patterns_are_exact_or_a_prefix(pattern, value, expected):
    assert matches(pattern, value) is expected


AWSS_EXAMPLE = [
    {"onStatusReason": "Host EC2*", "action": "RETRY"},
    {"onReason": "*", "action": "EXIT"},
]
FIRST_WINS = [{"onExitCode": "7", "action": "retry"}, {"onExitCode": "*", "action": "exit"}]
ALL_MUST_HOLD = [{"onExitCode": "7", "onStatusReason": "Host*", "action": "EXIT"}]


@pytest.mark.parametrize(
    ("strategy", "attempt", "end", "expected"),
    [
        ({}, 1, FAILED, False),
        ({"attempts": 3}, 2, FAILED, True),
        ({"attempts": 3}, 3, FAILED, False),
        ({"attempts": 5, "evaluateOnExit": AWSS_EXAMPLE}, 1, FAILED, False),
        ({"attempts": 5, "evaluateOnExit": AWSS_EXAMPLE}, 1, RECLAIMED, True),
        ({"attempts": 5, "evaluateOnExit": AWSS_EXAMPLE}, 1, NOT_STARTED, False),
        ({"attempts": 2, "evaluateOnExit": FIRST_WINS}, 1, FAILED, True),
        ({"attempts": 2, "evaluateOnExit": ALL_MUST_HOLD}, 1, FAILED, True),
    ],
)
def test_whether_an_attempt_is_followed_by_another(strategy, attempt, end, expected):
    assert should_retry(strategy, attempt, end) is expected
