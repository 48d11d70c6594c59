import pytest

from local_cloud.batch.jobs.retry import AttemptEnd, matches, should_retry

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
