"""Words of errors: of exit codes and of mistyped names."""

import pytest

from batchmark.core.errors import did_you_mean
from batchmark.core.failures.exit_codes import exit_code


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (0, ""),
        (1, " (the command's own error)"),
        (125, " (the command's own error)"),
        (126, " (the command can't be executed: check that it is an executable program)"),
        (127, " (the command was not found)"),
        (128, " (the command's own error)"),
        (129, " (ended by SIGHUP)"),
        (134, " (the program aborted itself)"),
        (137, " (killed, usually out of memory)"),
        (139, " (segmentation fault)"),
        (143, " (terminated from outside)"),
        (255, " (the command's own error)"),
    ],
)
def test_a_code_has_the_words_of_shells_and_signals(code, said):
    assert exit_code(code) == f"exit code {code}{said}"


def test_the_signal_that_stopped_a_job_is_no_want_of_memory():
    said = [exit_code(code, was_stopped=True) for code in (137, 143, 3)]
    assert said == ["exit code 137", "exit code 143", "exit code 3 (the command's own error)"]


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
