"""Text on its way out: to terminals and logs, Markdown and CSV; and words of errors."""

import csv
import io
import unicodedata

import pytest

from batchmark.core import output
from batchmark.core.errors import did_you_mean
from batchmark.core.failures.exit_codes import exit_code
from tests.builders.hostile import STEERING

PLACES = (range(0x3100), range(0xD7F0, 0xE010), range(0xFE00, 0x10000), range(0xE0000, 0xE0200))
EVERY = "".join(chr(number) for numbers in PLACES for number in numbers)
STEERS = {one for one in EVERY if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp")}


@pytest.mark.parametrize("show", [output.line, output.markdown, output.cell])
def test_nothing_that_ends_a_line_or_steers_is_left(show):
    shown = show(EVERY)
    assert not STEERS & set(shown)
    assert len(shown.splitlines()) == 1


def test_a_line_says_what_was_there_and_gives_no_order_wherever_a_table_breaks_it():
    assert output.line("a\nb\x1b[31m\x7f\x85\u202e") == "a␊b␛[31m␡\ufffd\ufffd"
    usual = "µs, naïve 矩阵 🚀 a\u00a0b"
    assert output.line(usual) == usual
    shown = output.line("wide" * 9 + "::error::forged")
    assert not any(shown[place:].startswith("::error::") for place in range(len(shown)))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::error file=a,line=1::forged", ":\\:error file=a,line=1::forged"),
        ("x::Error::forged", "x:\\:Error::forged"),
        ("::stop-commands::x", ":\\:stop-commands::x"),
        ("::group::x", ":\\:group::x"),
        (":::warning::x", "::\\:warning::x"),
        ("a ##[error]forged", "a ##\\[error]forged"),
        ("##vso[task.complete result=Failed;]", "##\\vso[task.complete result=Failed;]"),
        ("##teamcity[message]", "##\\teamcity[message]"),
        *((usual, usual) for usual in ("std::error_code::x", "torch::nn::Linear", "# 1", "a: b")),
    ],
)
def test_orders_to_what_reads_a_log_are_broken_up(text, shown):
    assert output.line(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a | b", "a \\| b"),
        ("a\n# b", "a \\# b"),
        ("![x](http://a)<b>", "\\!\\[x\\](http://a)\\<b\\>"),
        ("&lt;~~`*_", "\\&lt;\\~\\~\\`\\*\\_"),
    ],
)
def test_markdown_has_no_markup_of_names(text, shown):
    assert output.markdown(text) == shown


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff20", " ="])
def test_no_cell_is_a_formula(begin):
    assert output.cell(f"{begin}cmd|' /C calc'!A0").startswith("'")


@pytest.mark.parametrize(
    "value", [-1.5, -3, "-1.5", "-12", "+3", "-1e-9", "", "a-b", "1", None, True]
)
def test_numbers_and_other_cells_stay_as_they_are(value):
    assert output.cell(value) == value


def test_each_row_of_csv_is_a_line():
    rows = [("a", STEERING, '"quoted", twice'), ("-1", -1, None)]
    text = output.csv_text(rows)
    assert len(text.splitlines()) == len(rows)
    assert [len(row) for row in csv.reader(io.StringIO(text))] == [3, 3]


def test_what_is_said_is_a_line_as_is_what_a_mistyped_command_is_told(capsys):
    output.say(STEERING)
    output.say(STEERING, error=True)
    for said in capsys.readouterr():
        assert len(said.splitlines()) == 1
    with pytest.raises(SystemExit):
        output.Parser(prog="batchmark").parse_args([f"--no{STEERING}"])
    *_, last = capsys.readouterr().err.splitlines()
    assert last.startswith("batchmark: error: unrecognized arguments: --no")


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
