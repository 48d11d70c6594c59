"""Filter patterns of CloudWatch Logs."""

import pytest
from moto.logs.exceptions import InvalidParameterException

from local_cloud.gaps.logs import matcher


@pytest.mark.parametrize(
    ("pattern", "message", "matches"),
    [
        ("", "anything", True),
        ("?ERROR", "an ERROR here", True),
        ("?ERROR", "an error here", False),
        ("?ERROR", "many ERRORS here", False),
        ("?ERROR ?WARN", "WARN of something", True),
        ("?ERROR ?WARN", "nothing of both", False),
        ("?BATCHMARK_METRIC ?BATCHMARK_JOB", 'BATCHMARK_METRIC {"metric": 1}', True),
        ("?BATCHMARK_METRIC ?BATCHMARK_JOB", "BATCHMARK_METRIC_FILE {}", False),
        ('"Batch Job"', "a Batch Jobs Queue", True),
        ('"Batch Job"', "a Batch of Jobs", False),
        (r'"says \"no\""', 'it says "no"', True),
    ],
)
def test_what_a_pattern_matches(pattern, message, matches):
    assert matcher(pattern)(message) is matches


@pytest.mark.parametrize(
    "pattern",
    ["word", "a -b", "a-b", "?a-b", '"open', '"a" "b"', "?", "?a b", "{ $.a = 1 }", "[a]", "%a%"],
)
def test_patterns_that_are_refused(pattern):
    with pytest.raises(InvalidParameterException, match="The local cloud has filter patterns like"):
        matcher(pattern)
