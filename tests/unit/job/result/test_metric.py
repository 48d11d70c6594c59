"""The lines by which any job tells metrics."""

import json

import pytest

from batchmark_job.result.metric import (
    MOST_CHARACTERS,
    PREFIX,
    MetricLine,
    MetricLineError,
    json_schema,
    parse_metric_line,
)
from tests.paths import ROOT

EXPORTED = ROOT / "job_container/metric-line.schema.json"
GOOD = {"metric": "throughput", "value": 123.5, "unit": "images/s", "higher_is_better": True}


def line(**changes):
    return json.dumps({name: v for name, v in (GOOD | changes).items() if v is not None})


def problem(text):
    with pytest.raises(MetricLineError) as raised:
        parse_metric_line(text)
    assert len(str(raised.value)) < 400
    return str(raised.value)


def test_exported_schema_is_the_code_s():
    assert json.loads(EXPORTED.read_text()) == json_schema(), "run `make schema`"


def test_a_line_is_read():
    assert parse_metric_line(line()) == MetricLine(**GOOD, version=1)
    assert parse_metric_line(line(version=1)) == parse_metric_line(line())


@pytest.mark.parametrize("text", [f"  {line()} \t", f"{line()}\r", line().replace(":", " : ")])
def test_white_space_does_not_matter(text):
    assert parse_metric_line(text).value == 123.5


@pytest.mark.parametrize("value", [1, 1e-9, 1e9, 0.25])
def test_values_within_the_bounds_are_read(value):
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


@pytest.mark.parametrize("name", list(GOOD))
def test_a_missing_value_is_named(name):
    assert problem(line(**{name: None})) == f"{name}: Field required"


@pytest.mark.parametrize("version", [0, 2, "1"])
def test_another_version_is_refused_in_words(version):
    assert problem(line(version=version)) == f"version: Input should be 1, not {str(version)!r}"


def test_a_key_that_stands_twice_is_refused():
    """JSON's readers would take the last of its values without a word."""
    said = problem(line().replace('"value"', '"value": 1, "value"'))
    assert said == "line: the key 'value' appears twice"


def test_a_huge_line_is_refused_unread():
    padded = line() + " " * MOST_CHARACTERS
    assert problem(padded) == f"{len(padded)} characters, but at most {MOST_CHARACTERS} are allowed"
    assert parse_metric_line(line().ljust(MOST_CHARACTERS)).value == 123.5


def test_the_prefix_is_a_word_of_its_own():
    assert PREFIX.endswith(" ")
    assert PREFIX.split() == [PREFIX.strip()]
