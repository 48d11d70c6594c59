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


def test_no_strategy_means_one_attempt():
    assert not should_retry({}, 1, FAILED)


def test_without_rules_every_attempt_is_used():
    assert should_retry({"attempts": 3}, 2, FAILED)
    assert not should_retry({"attempts": 3}, 3, FAILED)


@pytest.mark.parametrize(
    ("end", "expected"), [(FAILED, False), (RECLAIMED, True), (NOT_STARTED, False)]
)
def test_awss_own_example(end, expected):
    rules = [
        {"onStatusReason": "Host EC2*", "action": "RETRY"},
        {"onReason": "*", "action": "EXIT"},
    ]
    assert should_retry({"attempts": 5, "evaluateOnExit": rules}, 1, end) is expected


def test_the_first_rule_that_matches_wins():
    rules = [{"onExitCode": "7", "action": "retry"}, {"onExitCode": "*", "action": "exit"}]
    assert should_retry({"attempts": 2, "evaluateOnExit": rules}, 1, FAILED)


def test_all_conditions_of_a_rule_must_hold():
    rules = [{"onExitCode": "7", "onStatusReason": "Host*", "action": "EXIT"}]
    assert should_retry({"attempts": 2, "evaluateOnExit": rules}, 1, FAILED)
