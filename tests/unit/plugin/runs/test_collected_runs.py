"""A run's documents are stored once, and found again by whoever reads the run."""

import json
from hashlib import sha256

import pytest
from botocore.exceptions import ClientError

from batchmark.analysis.comparison import compare
from batchmark.aws.result_bucket import COLLECTED, RunStore
from batchmark.core.errors import CollectError
from batchmark.runs.collected_runs import readable_run, store_run, stored_run
from tests.builders.runs import (
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
    assert lost.reason.startswith(
        f"its result document can't be used: s3://batchmark-results/{GONE}"
    )
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


def test_a_document_that_s3_does_not_give_now_is_not_gone(store, bucket):
    key = store_run(store, RUN)

    def refuse(_, asked):
        if asked == GONE:
            raise client_error("SlowDown", 503)

    bucket.on_call = refuse
    with pytest.raises(ClientError, match="SlowDown"):
        readable_run(store, key)


def test_a_run_that_was_never_collected_is_none(store):
    key = store.prefix + COLLECTED
    assert stored_run(store, key) is None
    with pytest.raises(CollectError, match=f"{key} does not exist"):
        readable_run(store, key)
