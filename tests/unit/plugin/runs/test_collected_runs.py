"""A run's documents: which counts as a job's, stored once, and found again by its readers."""

import json
from hashlib import sha256

import pytest
from botocore.exceptions import ClientError

from batchmark.analysis.comparison import compare
from batchmark.aws.result_bucket import COLLECTED, RunStore
from batchmark.core.errors import CollectError
from batchmark.runs import result_documents
from batchmark.runs.collected_runs import readable_run, store_run, stored_run
from batchmark.runs.result_documents import ExpectedDocument, key_of
from tests.builders.runs import (
    GPU_ENVIRONMENT,
    PRICES,
    as_older_releases_stored,
    build_job,
    build_lost,
    build_row,
    build_run,
    put_documents,
    with_digests,
)
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


def test_a_document_with_another_sha_256_or_that_nobody_foresaw_is_refused(monkeypatch):
    assert read(TEXT) == JOB.document
    own = read(changed(measurements=IN_TF32), dtype="suite")
    assert own.measurements == IN_TF32
    with pytest.raises(CollectError, match=r"can't be read \(NoSuchBucket\)"):
        read(TEXT, client_error("NoSuchBucket", 404))
    raw = EXPECTED.read_raw(stored(TEXT), "job-1", 1)
    assert raw == (JOB.document, sha256(TEXT.encode()).hexdigest())
    assert EXPECTED.read_raw(stored(TEXT), "job-1", 1, raw.sha256) == raw
    for other in (TEXT + " ", "no document", changed(total_seconds=1.0)):
        with pytest.raises(CollectError, match=f"was replaced: .*, but was {raw.sha256} when coll"):
            EXPECTED.read_raw(stored(other), "job-1", 1, raw.sha256)
    monkeypatch.setattr(result_documents, "parse_document", failing(OverflowError("too\nlarge")))
    with pytest.raises(CollectError) as refused:
        read("{}")
    assert str(refused.value) == f"{URI}: unexpected OverflowError: too large"


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
        (changed(measurements=IN_TF32), f"{URI} contains a matmul row in tf32, but only float32"),
    ],
    ids=lambda value: str(value)[-40:],
)
def test_what_is_no_document_of_the_job_is_refused_with_the_reason(text, problem):
    with pytest.raises(CollectError) as refused:
        read(text)
    assert problem in str(refused.value)
    assert str(refused.value).startswith(URI)


@pytest.mark.parametrize(("code", "status"), [("SlowDown", 503), ("KMS.DisabledException", 400)])
def test_an_s3_that_refuses_for_now_says_nothing_of_the_document(code, status):
    """Its error names what it was about."""
    with pytest.raises(ClientError, match=code) as raised:
        read(TEXT, client_error(code, status))
    assert raised.value.__notes__ == [f"Failed to read {URI}."]


RUN = with_digests(
    build_run(
        *(build_job(name, [build_row((0.1,) * 8)]) for name in ("g5.xlarge", "c5.2xlarge")),
        lost=[build_lost("g6.xlarge", "exit code 3")],
    )
)
GONE = "raw/run/g5.xlarge/blog/1/g5-xlarge-blog-1.1.json"


@pytest.fixture
def bucket():
    return MemoryBucket("batchmark-results", "us-east-1")


def reads(bucket):
    return [key for operation, key in bucket.calls if operation == "GetObject"]


@pytest.fixture
def store(bucket):
    made = RunStore(bucket, "batchmark-results", RUN.run_id)
    put_documents(made, RUN)
    return made


def test_a_collected_run_is_stored_without_its_documents_and_read_with_them(store, bucket):
    key = store_run(store, RUN)
    assert key == store.prefix + COLLECTED
    before = bucket.objects[key]
    stored = json.loads(before)
    assert all("document" not in job for job in stored["jobs"])
    assert [job["document_uri"] for job in stored["jobs"]] == [
        f"s3://batchmark-results/raw/run/{name}/blog/1/{name.replace('.', '-')}-blog-1.1.json"
        for name in ("g5.xlarge", "c5.2xlarge")
    ]
    bucket.calls.clear()
    assert readable_run(store, key) == RUN
    assert len(reads(bucket)) == len(set(reads(bucket))) == 3, "each document is read once"
    bucket.calls.clear()
    for read in (stored_run, readable_run):
        store_run(store, read(store, key))
        assert bucket.objects[key] == before
    assert reads(bucket)[:2] == [key] * 2, "none where none is needed"


@pytest.mark.parametrize("replaced", [False, True])
def test_a_job_whose_document_is_gone_or_was_replaced_is_lost_to_a_report(store, bucket, replaced):
    """By one that is valid, and of the same job: only its content is not what was collected."""
    key = store_run(store, RUN)
    before, job = bucket.objects.pop(GONE), RUN.jobs[0]
    faster = job.document.model_copy(update={"measurements": (build_row((0.01,) * 8),)})
    if replaced:
        bucket.objects[GONE] = faster.to_json().encode()
    run = readable_run(store, key)
    assert (run.jobs, run.notes) == (RUN.jobs[1:], ())
    first, lost = run.lost
    assert first == RUN.lost[0]
    assert (lost.planned, lost.job_id) == (job.planned, job.job_id)
    assert (lost.instance_type, lost.seconds) == ("g5.xlarge", 40.0)
    assert lost.document_sha256 == job.document_sha256 == sha256(before).hexdigest()
    assert f"its result document can't be used: s3://batchmark-results/{GONE}" in lost.reason
    if replaced:
        assert f"{GONE} was replaced: its SHA-256 is " in lost.reason
        assert f"but was {job.document_sha256} when collected; restore" in lost.reason


def test_what_an_older_release_collected_is_read_and_said_to_be_unchecked(store, bucket):
    jobs = (RUN.jobs[0].model_copy(update={"document_sha256": None}), RUN.jobs[1])
    before = json.loads(RUN.model_copy(update={"jobs": jobs}).model_dump_json())
    del before["jobs"][0]["document_sha256"]
    run = readable_run(store, store.write(COLLECTED, json.dumps(before)))
    assert run.jobs == jobs
    (note,) = compare(run, PRICES).notices[:1]
    assert note == (
        "Not checked: 1 result document, because the release that collected them "
        "stored no SHA-256 to detect replacements."
    )
    key = store.write(COLLECTED, as_older_releases_stored(RUN))
    assert readable_run(store, key) == RUN
    assert set(reads(bucket)[-1:]) == {key}


def test_a_run_never_collected_is_none_unlike_a_document_that_s3_does_not_give_now(store, bucket):
    key = store.prefix + COLLECTED
    assert stored_run(store, key) is None
    with pytest.raises(CollectError, match=f"{key} does not exist"):
        readable_run(store, key)
    key = store_run(store, RUN)

    def refuse(_, asked):
        if asked == GONE:
            raise client_error("SlowDown", 503)

    bucket.on_call = refuse
    with pytest.raises(ClientError, match="SlowDown"):
        readable_run(store, key)
