"""A job succeeds only with its result document."""

import pytest
from botocore.exceptions import ReadTimeoutError

from batchmark.runs.result_documents import ExpectedDocument, key_of
from tests.builders.runs import build_job, build_row
from tests.stand_ins.batch import client_error
from tests.stand_ins.bucket import MemoryBucket
from tests.stand_ins.failing_calls import failing
from tests.stand_ins.following import NAME, SUCCEEDED, Following

JOB = build_job("g5.xlarge", [build_row([0.1] * 8)], job_id="job-1")
EXPECTED = ExpectedDocument.of(JOB.document.run_id, JOB.planned)
TEXT = JOB.document.to_json().encode()
DONE = SUCCEEDED | {"attempts": [{}], "container": {"logStreamName": "stream"}}


def following(text):
    """A trigger whose job left this, or nothing."""
    s3 = MemoryBucket(EXPECTED.bucket, "us-east-1")
    s3.objects = {key_of(EXPECTED.uri("job-1", 1)): text} if text else {}
    return Following(document=EXPECTED.model_dump(), s3=s3)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (TEXT[:200], "not a result document: invalid JSON"),
        (None, "/blog/1/job-1.1.json can't be read (NoSuchKey)"),
    ],
    ids=["cut off", "missing"],
)
def test_a_success_without_a_valid_document_fails_with_the_reason(text, problem):
    failure = following(text).fails((9, DONE))
    first, *_, last = failure.splitlines()
    assert first.startswith(f"Batch job job-1 ({NAME}) is SUCCEEDED, but it left no valid result ")
    assert problem in first
    assert last == "boom"


def test_a_document_is_not_judged_while_s3_fails_or_refuses():
    made = following(TEXT)
    made.trigger.clients.clients["s3"].on_call = failing(
        client_error("SlowDown", 503),
        ReadTimeoutError(endpoint_url="https://s3.example"),
        *(client_error(code, 403) for code in ("ExpiredToken", "AccessDenied", "InvalidToken")),
        then=lambda *_: None,
    )
    made.succeeds((9, DONE))
    assert made.slept == [2] * 5
