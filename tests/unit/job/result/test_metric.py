"""The lines by which any job tells metrics."""

import json

import pytest

from batchmark_job.result.metric import (
    MOST_CHARACTERS,
    MetricLine,
    MetricLineError,
    parse_metric_line,
)

GOOD = {"metric": "throughput", "value": 123.5, "unit": "images/s", "higher_is_better": True}


def line(**changes):
    return json.dumps({name: v for name, v in (GOOD | changes).items() if v is not None})


def problem(text):
    with pytest.raises(MetricLineError) as raised:
        parse_metric_line(text)
    assert len(str(raised.value)) < 400
    return str(raised.value)


def test_a_line_is_read_whatever_its_white_space():
    assert parse_metric_line(line()) == MetricLine(**GOOD, version=1)
    assert parse_metric_line(line(version=1)) == parse_metric_line(line())
    for text in (f"  {line()} \t", f"{line()}\r", line().replace(":", " : ")):
        assert parse_metric_line(text).value == 123.5
    for value in (1, 1e-9, 1e9, 0.25):
        assert parse_metric_line(line(value=value)).value == value


@pytest.mark.parametrize("value", [0, -1, 9e-10, 1.1e9, 10**30])
def test_values_beyond_the_bounds_are_refused(value):
    said = problem(line(value=value))
    assert said.startswith("value: Input should be ")
    assert said.endswith(f", not {str(value)!r}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *(
            (line().replace("123.5", number), ("not JSON: ", "value: "))
            for number in ("NaN", "Infinity", "-Infinity", "1e999", "0x10", "01", ".5")
        ),
        (line().replace("123.5", "9" * 1900), "value: "),
        *((line(**{name: None}), f"{name}: Field required") for name in GOOD),
        *((line(version=v), f"version: Input should be 1, not {str(v)!r}") for v in (0, 2, "1")),
        *((line(value=value), "value: ") for value in ("1", True, [1])),
        *((line(higher_is_better=value), "higher_is_better: ") for value in (1, "yes")),
        *((line(metric=value), "metric: ") for value in (1, "", "1st", "a\n", "x" * 81)),
        *(
            (line(unit=value), "unit: ")
            for value in ({}, "", "a\nb", "a\x85b", "a\u2028b", "a\u202eb", "x" * 41)
        ),
        (line(uint="images/s"), "uint: Extra inputs are not permitted"),
        *(
            (text, ("not JSON: ", "line: "))
            for text in ("", " ", "null", "[]", "3", '"text"', line()[:-1], f"{line()} x")
        ),
        (f"{line()}{line()}", ("not JSON: ", "line: ")),
        *((nested, "not JSON: ") for nested in ("[" * MOST_CHARACTERS, '{"a":' * 400)),
        *(
            (no_text, "not JSON: ")
            for no_text in (line(unit="\ud800"), line().replace("images", "\udc80"), "\0")
        ),
    ],
)
def test_what_is_no_such_line_is_refused_and_what_is_wrong_is_named(text, said):
    assert problem(text).startswith(said)


def test_a_huge_line_and_a_key_that_stands_twice_are_refused():
    # JSON's readers would take the last of its values without a word.
    said = problem(line().replace('"value"', '"value": 1, "value"'))
    assert said == "line: the key 'value' appears twice"
    padded = line() + " " * MOST_CHARACTERS
    assert problem(padded) == f"{len(padded)} characters, but at most {MOST_CHARACTERS} are allowed"
    assert parse_metric_line(line().ljust(MOST_CHARACTERS)).value == 123.5
