"""Ends of messages."""

import pytest

from batchmark.core.errors import did_you_mean


@pytest.mark.parametrize(
    ("given", "known", "end"),
    [
        ("sise", ("speed", "size"), " (did you mean size?); known: speed, size"),
        ("x", ("speed", "size"), "; known: speed, size"),
        ("x", (), "; known: none"),
    ],
)
def test_a_wrong_name_is_answered_with_those_there_are(given, known, end):
    assert did_you_mean(given, known) == end
