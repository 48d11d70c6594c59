"""A job succeeds only with its result document."""

from io import BytesIO
from types import SimpleNamespace

import pytest
from botocore.exceptions import ReadTimeoutError

from batchmark.runs.result_documents import ExpectedDocument
from tests.builders.runs import build_job, build_row
from tests.stand_ins.batch import client_error
from tests.stand_ins.following import NAME, SUCCEEDED, Following


def stored(body, **changes):
    """Return an S3 client that holds one document."""
    answer = {"Body": BytesIO(body), "ContentLength": len(body)} | changes
    meta = SimpleNamespace(endpoint_url="http://127.0.0.1:5000")
    return SimpleNamespace(get_object=lambda **_: answer, meta=meta)


def expected():
    """Return job-1's document and the fields of its ExpectedDocument."""
    job = build_job("g5.xlarge", [build_row([0.1] * 8)], job_id="job-1")
    fields = ExpectedDocument.of("scheduled__2026-11-20", job.planned).model_dump()
    return job.document.to_json().encode(), fields


DONE = SUCCEEDED | {"attempts": [{}], "container": {"logStreamName": "stream"}}


def test_a_job_with_its_document_succeeds():
    text, fields = expected()
    event = Following(document=fields, s3=stored(text)).event((9, DONE))
    assert event.task_instance_state == "success"


@pytest.mark.parametrize(
    ("text", "changes", "problem"),
    [
        (lambda text: text[:200], {}, "not a result document: invalid JSON"),
        (
            lambda text: text.replace(b'"schema_version": 2', b'"schema_version": 9'),
            {},
            "result document has schema_version 9, this Batchmark reads 1, 2",
        ),
        (lambda text: text.replace(b'"job-1"', b'"job-7"'), {}, "has job_id 'job-7', expected"),
        (lambda text: text, {"ContentLength": 200 * 2**20}, "has 200.0 MiB, more than the 16 MiB"),
    ],
    ids=["truncated", "another version", "another job", "200 MB"],
)
def test_a_success_without_a_valid_document_fails_with_the_reason(text, changes, problem):
    written, fields = expected()
    event = Following(document=fields, s3=stored(text(written), **changes)).event((9, DONE))
    assert event.task_instance_state == "failed"
    first, *_, last = event.xcoms["failure"].splitlines()
    assert first.startswith(f"Batch job job-1 ({NAME}) is SUCCEEDED, but it left no valid result ")
    assert problem in first
    assert last == "boom"


def test_a_success_without_any_document_is_a_failure():
    def get_object(**_):
        raise client_error("NoSuchKey", 404)

    _, fields = expected()
    event = Following(document=fields, s3=SimpleNamespace(get_object=get_object)).event((9, DONE))
    assert "/blog/1/job-1.1.json can't be read (NoSuchKey)" in event.xcoms["failure"]


def test_a_document_is_not_judged_while_s3_fails_or_refuses():
    text, fields = expected()
    s3 = stored(text)
    problems = [
        client_error("SlowDown", 503),
        ReadTimeoutError(endpoint_url="https://s3.example"),
        *(client_error(code, 403) for code in ("ExpiredToken", "AccessDenied", "InvalidToken")),
    ]
    answers = s3.get_object

    def get_object(**arguments):
        if problems:
            raise problems.pop(0)
        return answers(**arguments)

    s3.get_object = get_object
    following = Following(document=fields, s3=s3)
    assert following.event((9, DONE)).task_instance_state == "success"
    assert following.slept == [2] * 5
