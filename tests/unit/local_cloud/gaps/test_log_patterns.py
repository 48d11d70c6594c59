"""Filter patterns of CloudWatch Logs."""

import pytest

from local_cloud.gaps.log_patterns import Pattern, PatternError


@pytest.mark.parametrize(
    ("pattern", "message", "matches"),
    [
        ("", "anything", True),
        ("ERROR", "an ERROR here", True),
        ("ERROR", "an error here", False),
        ("ERROR", "many ERRORS here", False),
        ("ERROR Exception", "Exception: ERROR", True),
        ("ERROR Exception", "ERROR alone", False),
        ("?ERROR ?WARN", "WARN of something", True),
        ("?ERROR ?WARN", "nothing of both", False),
        ("?BATCHMARK_METRIC ?BATCHMARK_JOB", 'BATCHMARK_METRIC {"metric": 1}', True),
        ("?BATCHMARK_METRIC ?BATCHMARK_JOB", "BATCHMARK_METRIC_FILE {}", False),
        ("ERROR -debug", "ERROR of a run", True),
        ("ERROR -debug", "ERROR of a debug run", False),
        ('"Batch Job"', "a Batch Jobs Queue", True),
        ('"Batch Job"', "a Batch of Jobs", False),
        (r'"says \"no\""', 'it says "no"', True),
    ],
)
def test_what_a_pattern_matches(pattern, message, matches):
    assert Pattern.parse(pattern).matches(message) is matches


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("a-b", "Invalid filter pattern"),
        ('"open', "Invalid filter pattern"),
        ("?", "Invalid filter pattern"),
        ("{ $.a = 1 }", "no filter patterns of JSON"),
        ("[a, b]", "no filter patterns of columns"),
        ("%a+%", "no filter patterns with regular expressions"),
        ("?a b", "does not mix ? with other terms"),
    ],
)
def test_patterns_that_are_refused(pattern, problem):
    with pytest.raises(PatternError, match=problem.replace("?", r"\?")):
        Pattern.parse(pattern)
