"""Which document counts as that of a planned job."""

import json
from hashlib import sha256

import pytest
from botocore.exceptions import ClientError

from batchmark.aws.result_bucket import RunStore
from batchmark.core.errors import CollectError
from batchmark.runs import result_documents
from batchmark.runs.result_documents import ExpectedDocument, key_of
from tests.builders.runs import GPU_ENVIRONMENT, build_job, build_row
from tests.stand_ins.batch import client_error
from tests.stand_ins.bucket import MemoryBucket
from tests.stand_ins.failing_calls import failing

JOB = build_job("g5.xlarge", [build_row([0.1] * 8)], job_id="job-1")
EXPECTED = ExpectedDocument.of(JOB.document.run_id, JOB.planned)
URI = EXPECTED.uri("job-1", 1)
TEXT = JOB.document.to_json()
ON_A_SIMULATED_GPU = GPU_ENVIRONMENT.model_copy(update={"gpu_model": "simulated Tesla T4"})
IN_TF32 = (build_row([0.1] * 8), build_row([0.1] * 8, dtype="tf32"))


def changed(**fields):
    return JOB.document.model_copy(update=fields).to_json()


def stored(text, *problems):
    bucket = MemoryBucket(EXPECTED.bucket, "us-east-1")
    bucket.objects = {} if text is None else {key_of(URI): text.encode()}
    bucket.on_call = failing(*problems, then=lambda *_: None)
    return RunStore(bucket, EXPECTED.bucket, "run")


def read(text, *problems, **expected):
    store = stored(text, *problems)
    return EXPECTED.model_copy(update=expected).read(store, "job-1", 1)


def test_the_document_of_an_attempt_is_read_whose_rows_may_have_their_own_dtypes_if_none_is_asked():
    assert read(TEXT) == JOB.document
    own = read(changed(measurements=IN_TF32), dtype="suite")
    assert own.measurements == IN_TF32
    with pytest.raises(CollectError, match=r"can't be read \(NoSuchBucket\)"):
        read(TEXT, client_error("NoSuchBucket", 404))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, " can't be read (NoSuchKey)"),
        (TEXT[:200], ": not a result document: invalid JSON"),
        (json.dumps(json.loads(TEXT) | {"schema_version": 9}), " has schema_version 9, but"),
        ("[" * 5000, ": not a result document: invalid JSON (recursion limit exceeded"),
        ('{"schema_version": 2, "x": ' + "[" * 5000, ": invalid JSON (recursion limit exceeded"),
        (TEXT + 16 * 2**20 * " ", " is 16.0 MiB, more than the limit of 16 MiB"),
        (changed(job_id="job-7"), f"{URI} has job_id 'job-7', expected 'job-1'"),
        (changed(job_attempt=2), f"{URI} has job_attempt 2, expected 1"),
        (changed(run_id="other"), f"{URI} has run_id 'other', expected 'scheduled__2026-11-20'"),
        (changed(environment=ON_A_SIMULATED_GPU), " a simulated Tesla T4, which is not a real GPU"),
        (
            changed(measurements=IN_TF32),
            f"{URI} contains a matmul row in tf32, but only float32 was expected",
        ),
    ],
    ids=lambda value: str(value)[-40:],
)
def test_what_is_no_document_of_the_job_is_refused_with_the_reason(text, problem):
    with pytest.raises(CollectError) as refused:
        read(text)
    assert problem in str(refused.value)
    assert str(refused.value).startswith(URI)


def test_a_document_with_another_sha_256_than_was_collected_is_refused_whatever_it_holds():
    raw = EXPECTED.read_raw(stored(TEXT), "job-1", 1)
    assert raw == (JOB.document, sha256(TEXT.encode()).hexdigest())
    assert EXPECTED.read_raw(stored(TEXT), "job-1", 1, raw.sha256) == raw
    for other in (TEXT + " ", "no document", changed(total_seconds=1.0)):
        with pytest.raises(
            CollectError, match=f"was replaced: .*, but was {raw.sha256} when collected; restore"
        ):
            EXPECTED.read_raw(stored(other), "job-1", 1, raw.sha256)


def test_a_document_that_nobody_foresaw_is_refused(monkeypatch):
    monkeypatch.setattr(result_documents, "parse_document", failing(OverflowError("too\nlarge")))
    with pytest.raises(CollectError) as refused:
        read("{}")
    assert str(refused.value) == f"{URI}: unexpected OverflowError: too large"


@pytest.mark.parametrize(("code", "status"), [("SlowDown", 503), ("KMS.DisabledException", 400)])
def test_an_s3_that_refuses_for_now_says_nothing_of_the_document(code, status):
    """Its error names what it was about."""
    with pytest.raises(ClientError, match=code) as raised:
        read(TEXT, client_error(code, status))
    assert raised.value.__notes__ == [f"Failed to read {URI}."]
