import gzip
import json
import math
import re
from functools import reduce
from operator import getitem

import pytest

from batchmark_job.result.document import (
    Measurement,
    MeasurementStatus,
    ResultError,
    json_schema,
    parse_document,
)
from batchmark_job.result.values import (
    MOST_BYTES,
    MOST_CHARACTERS,
    MOST_ROWS,
    MOST_SAMPLES,
    MOST_SAMPLES_IN_ALL,
)
from tests.paths import ROOT

EXAMPLES = sorted((ROOT / "tests/data/results").glob("*.json"))
RECORDED = sorted((ROOT / "tests/data/recorded").glob("*.json.gz"))


COUNTS = ("cpu_cores", "cpu_threads", "compute_threads", "gpu_count")
SIZES = ("memory_bytes", "gpu_memory_bytes", "last_level_cache_bytes")
ROW_SIZES = ("flops", "bytes_moved", "peak_memory_bytes", "warmup_calls")
DATES = ("started_at", "finished_at", "marks.process_started_at")
FAR_DATES = (("0001-01-01", "+23:59"), ("9999-12-31", "-23:59"), ("2200-01-01", "Z"))
PHASES = ("allocate_seconds", "compute_seconds")


@pytest.fixture
def raw():
    return json.loads((ROOT / "tests/data/results/cpu.json").read_text())


@pytest.mark.parametrize("path", [*EXAMPLES, *RECORDED], ids=lambda path: path.name)
def test_a_document_survives_a_round_trip(path):
    content = path.read_bytes()
    document = parse_document(gzip.decompress(content) if path.suffix == ".gz" else content)
    assert parse_document(document.to_json()) == document


def test_version_1_still_reads():
    old = parse_document((ROOT / "tests/data/results/cpu-version-1.json").read_bytes())
    assert old.schema_version == 1
    assert old.marks is None
    assert {row.trials for row in old.measurements} == {()}
    assert {row.status for row in old.measurements} == {"measured"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "invalid JSON"),
        ("[]", "not a result document: it has no schema_version"),
        ("nonsense", "invalid JSON"),
        ("{}", "it has no schema_version"),
        ('{"schema_version": 1}', "Field required"),
        ('{"schema_version": 3}', r"schema_version .* supports 1, 2; use a job image"),
    ],
)
def test_what_is_no_document_is_refused(text, message):
    with pytest.raises(ResultError, match=message):
        parse_document(text)


@pytest.mark.parametrize(
    ("changes", "of_row", "message"),
    [
        ({"surprise": 1}, {}, "surprise"),
        ({"finished_at": "2001-01-01T00:00:00Z"}, {}, "before started_at"),
        ({}, {"samples_seconds": []}, "samples_seconds"),
        ({}, {"correctness": {"relative_error": 1.0, "tolerance": 1e-5}}, "correctness check fail"),
        ({}, {"status": "skipped", "reason": None}, "needs a reason"),
    ],
)
def test_a_document_that_contradicts_itself_is_refused(raw, changes, of_row, message):
    row = raw["measurements"][0]
    assert row["status"] == MeasurementStatus.MEASURED
    with pytest.raises(ResultError, match=message):
        parse_document(json.dumps(raw | {"measurements": [row | of_row]} | changes))


HUGE = 10**400
NO_NUMBERS = (math.nan, math.inf)
BEYOND_ANY_MEASUREMENT = [
    *[("schema_version", value) for value in (0, 3, "1", None, 1.5)],
    *[("measurements.0.samples_seconds.0", value) for value in (*NO_NUMBERS, -1.0, 0.0)],
    *[("measurements.0.parameters.size", value) for value in NO_NUMBERS],
    *[(f"environment.{name}", value) for name in COUNTS for value in (2**31, HUGE)],
    *[(f"environment.{name}", value) for name in SIZES for value in (2**63, HUGE, 1e308)],
    *[(f"measurements.0.{name}", value) for name in ROW_SIZES for value in (2**63, HUGE)],
    *[(name, f"{date}T00:00:00{zone}") for name in DATES for date, zone in FAR_DATES],
    *[("measurements.0.samples_seconds.0", value) for value in (1e308, 5e-324, 1e10, 1e-13)],
    *[(f"measurements.0.phases.{name}", value) for name in PHASES for value in (1e308, 1e10)],
    ("measurements.0.cold_seconds", 5e-324),
    ("measurements.0.energy_joules", 1e308),
    ("measurements.0.input_sets", 2**31),
    ("measurements.0.caches_filled", 1e308),
    ("measurements.0.conditions_before.cpu_frequency_hz", 1e308),
    ("measurements.0.outlier_samples.0", HUGE),
    ("measurements.0.parameters.size", HUGE),
    ("measurements.0.parameters.size", "x" * 301),
    ("measurements.0.workload", "x" * 301),
    ("measurements.0.reason", "x" * (MOST_CHARACTERS + 1)),
    ("ceilings.0.rate_per_second", 1e308),
    ("ceilings.0.rate_per_second", 5e-324),
    ("telemetry.0.maximum", 1e308),
    ("total_seconds", 1e308),
    ("run_id", "x" * 301),
]


@pytest.mark.parametrize(("place", "value"), BEYOND_ANY_MEASUREMENT)
def test_what_no_machine_measures_is_refused(raw, place, value):
    *parents, name = [int(part) if part.isdigit() else part for part in place.split(".")]
    part = reduce(getitem, parents, raw)
    part[name] = value
    with pytest.raises(ResultError, match=re.escape(place)):
        parse_document(json.dumps(raw))


def kinds(schema, path=""):
    if isinstance(schema, dict):
        if isinstance(kind := schema.get("type"), str):
            yield path, kind, schema
        for name, part in schema.items():
            yield from kinds(part, f"{path}.{name}")
    elif isinstance(schema, list):
        for place, part in enumerate(schema):
            yield from kinds(part, f"{path}.{place}")


def test_every_value_has_bounds():
    bounds = {
        "integer": (
            {"minimum", "exclusiveMinimum", "enum"},
            {"maximum", "exclusiveMaximum", "enum"},
        ),
        "number": ({"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"}),
        "string": ({"maxLength", "enum", "const", "format"},),
        "array": ({"maxItems"},),
    }
    unbounded = {
        path.rpartition(".properties.")[2].partition(".")[0]
        for path, kind, schema in kinds(json_schema())
        if not all(one & schema.keys() for one in bounds.get(kind, ()))
    }
    # Of a wrong result the error may be anything; a parameter is only shown.
    assert unbounded == {"relative_error", "tolerance", "parameters"}


def test_what_is_wrong_with_a_document_is_told_in_a_line_however_it_is_nested(raw):
    deep = "[" * 5000 + "]" * 5000
    for text in (deep, "[" * 5000, json.dumps(raw)[:-1] + f', "surprise": {deep}}}'):
        with pytest.raises(ResultError, match="recursion limit exceeded"):
            parse_document(text)
    with pytest.raises(ResultError) as refused:
        parse_document(json.dumps(raw | {"a\n::error::b\x1b": 1}))
    assert str(refused.value).isprintable()


def test_text_that_would_steer_a_line_reads_with_a_sign_of_the_same_length_in_its_place(raw):
    row = raw["measurements"][0]
    row |= {"workload": "a\nb\x1b[31m", "parameters": {"c\u202e": "d\x7f"}, "reason": "e\r" * 1000}
    document = parse_document(json.dumps(raw))
    found = document.measurements[0]
    assert (found.workload, found.reason) == ("a␊b␛[31m", "e␍" * 1000)
    assert found.parameters == {"c\ufffd": "d␡"}
    assert parse_document(document.to_json()) == document


@pytest.mark.parametrize("also", [{}, {"reason": "it is another", "status": "skipped"}])
def test_a_row_is_in_a_document_once(raw, also):
    row = raw["measurements"][0]
    again = row | also | {"parameters": dict(reversed(row["parameters"].items()))}
    with pytest.raises(ResultError, match=r"the row \w+ .* float32 appears twice"):
        parse_document(json.dumps(raw | {"measurements": [row, again]}))


@pytest.mark.parametrize(
    ("rows", "samples", "message"),
    [
        (MOST_ROWS + 1, 1, "at most 1000 items"),
        (1, MOST_SAMPLES + 1, "at most 10000 items"),
        (21, MOST_SAMPLES, f"210000 samples, more than the limit of {MOST_SAMPLES_IN_ALL}"),
    ],
)
def test_rows_and_samples_are_limited(raw, rows, samples, message):
    row = raw["measurements"][0] | {"samples_seconds": [0.1] * samples}
    given = [row | {"parameters": {"size": number}} for number in range(rows)]
    with pytest.raises(ResultError, match=message):
        parse_document(json.dumps(raw | {"measurements": given}))


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (" " * MOST_BYTES, "larger than 16 MiB"),
        (f'"telemetry": [{"{}," * 100_000}{{}}]', r"telemetry\.0"),
        (f'"measurements": [{"1," * 100_000}1]', r"measurements\.0"),
        (", ".join(f'"k{number}": 1' for number in range(10_000)), "an object has 100.. keys"),
    ],
)
def test_a_document_of_faults_alone_is_read_no_further_than_the_first(raw, part, message):
    given = {name: value for name, value in raw.items() if f'"{name}"' not in part}
    with pytest.raises(ResultError, match=message) as raised:
        parse_document(json.dumps(given)[:-1] + f", {part}}}")
    assert len(str(raised.value)) < 1000


def test_the_largest_document_that_a_job_writes_is_read(raw):
    """A hundredth of it."""
    row = raw["measurements"][0] | {
        "samples_seconds": [1.2345678901234567e-05] * (MOST_SAMPLES_IN_ALL // 1000),
        "throttled_samples": [MOST_SAMPLES] * (MOST_SAMPLES_IN_ALL // 1000),
        "outlier_samples": [MOST_SAMPLES] * (MOST_SAMPLES_IN_ALL // 1000),
    }
    rows = [row | {"parameters": {"size": number}} for number in range(MOST_ROWS // 100)]
    document = parse_document(json.dumps(raw | {"measurements": rows}))
    assert len(document.to_json()) < MOST_BYTES / 100


def test_samples_of_the_processes_are_all_of_the_rows():
    row = {"workload": "matmul", "parameters": {"size": 1}, "dtype": "float32"}
    row |= {"status": "unsettled", "reason": "it drifts", "samples_seconds": (1.0, 2.0, 3.0)}
    assert Measurement(**row, process_samples=(1, 2), turn_samples=(1, 1, 1)).turn_samples
    for processes, turns, wrong in (
        ((2, 2), (), "its process_samples add up to 4, but it has 3 samples"),
        ((1, 2), (1, 1), "its turn_samples add up to 2, but it has 3 samples"),
        ((1, 2), (2, 1), "one of its turns spans two processes"),
    ):
        with pytest.raises(ValueError, match=wrong):
            Measurement(**row, process_samples=processes, turn_samples=turns)
