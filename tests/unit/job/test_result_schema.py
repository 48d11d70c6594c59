import gzip
import json
import math
from pathlib import Path

import pytest

from batchmark_job.result import (
    MeasurementStatus,
    ResultDocument,
    ResultError,
    json_schema,
    parse_document,
)

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted((ROOT / "tests/data/results").glob("*.json"))
RECORDED = sorted((ROOT / "tests/data/recorded").glob("*.json.gz"))


@pytest.fixture
def raw():
    return json.loads((ROOT / "tests/data/results/cpu.json").read_text())


def test_exported_schema_is_the_code_s():
    exported = json.loads((ROOT / "job_container/result.schema.json").read_text())
    assert exported == json_schema(), "run `make schema`"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_is_valid_and_survives_a_round_trip(path):
    document = parse_document(path.read_bytes())
    assert parse_document(document.to_json()) == document
    assert document.run_id.startswith("example"), "an example must say that it is one"
    assert document.actual_device == "cpu"


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_recorded_document_survives_a_round_trip(path):
    document = parse_document(gzip.decompress(path.read_bytes()))
    assert parse_document(document.to_json()) == document


def test_examples_cover_every_ending():
    documents = [parse_document(path.read_bytes()) for path in EXAMPLES]
    assert {document.status for document in documents} == {"complete", "interrupted"}
    assert {document.requested_device for document in documents} >= {"cpu", "cuda"}
    statuses = {row.status for document in documents for row in document.measurements}
    assert statuses >= {"measured", "skipped", "interrupted", "unsettled"}
    stops = {row.stopping.criterion for d in documents for row in d.measurements if row.stopping}
    assert stops == {"precise", "max_samples", "max_seconds"}


def test_version_1_still_reads():
    old = parse_document((ROOT / "tests/data/results/cpu-version-1.json").read_bytes())
    assert old.schema_version == 1
    assert old.marks is None
    assert {row.trials for row in old.measurements} == {()}
    assert {row.status for row in old.measurements} == {"measured"}


@pytest.mark.parametrize("version", [0, 3, "1", None, 1.5])
def test_unknown_version_is_refused(raw, version):
    raw["schema_version"] = version
    with pytest.raises(ResultError, match=r"schema_version .* reads 1, 2; use the job image"):
        parse_document(json.dumps(raw))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "invalid JSON"),
        ("[]", "schema_version None"),
        ("nonsense", "invalid JSON"),
        ("{}", "schema_version None"),
        ('{"schema_version": 1}', "Field required"),
    ],
)
def test_what_is_no_document_is_refused(text, message):
    with pytest.raises(ResultError, match=message):
        parse_document(text)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 0.0])
def test_samples_must_be_positive_numbers(raw, value):
    raw["measurements"][0]["samples_seconds"][0] = value
    with pytest.raises(ResultError, match=r"measurements\.0"):
        parse_document(json.dumps(raw))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_parameters_must_be_numbers(raw, value):
    raw["measurements"][0]["parameters"]["size"] = value
    with pytest.raises(ResultError, match="parameters"):
        parse_document(json.dumps(raw))


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"surprise": 1}, "surprise"), ({"finished_at": "2001-01-01T00:00:00Z"}, "before started_at")],
)
def test_a_document_that_contradicts_itself_is_refused(raw, changes, message):
    with pytest.raises(ResultError, match=message):
        parse_document(json.dumps(raw | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"samples_seconds": []}, "samples_seconds"),
        ({"correctness": {"relative_error": 1.0, "tolerance": 1e-5}}, "correctness check failed"),
        ({"status": "skipped", "reason": None}, "needs a reason"),
    ],
)
def test_a_row_that_contradicts_its_status_is_refused(raw, changes, message):
    row = raw["measurements"][0]
    assert row["status"] == MeasurementStatus.MEASURED
    with pytest.raises(ResultError, match=message):
        parse_document(json.dumps(raw | {"measurements": [row | changes]}))


def test_version_is_part_of_every_document():
    assert "schema_version" in ResultDocument.model_json_schema()["properties"]
