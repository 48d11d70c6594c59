"""What AWS answers in bad cases, given to real clients by botocore's stubber."""

import json
from io import BytesIO

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.stub import ANY, Stubber
from urllib3 import HTTPResponse

from batchmark.collecting import collect_run
from batchmark.run import PlannedJob
from batchmark.store import RunStore

JOB_ID = "11111111-2222-3333-4444-555555555555"
PLAN = PlannedJob(
    target="g5.xlarge",
    device="cuda",
    instance_type="g5.xlarge",
    suite="smoke",
    repeat=1,
    dtype="float32",
    result_prefix="s3://results/raw/run/g5.xlarge/smoke/1/",
)


def described(status, **fields):
    return {
        "jobId": JOB_ID,
        "jobArn": f"arn:aws:batch:us-east-1:123456789012:job/{JOB_ID}",
        "jobName": "batchmark-g5-xlarge-smoke-1",
        "jobQueue": "queue",
        "jobDefinition": "definition",
        "status": status,
        "startedAt": 1_795_222_800_000,
        "createdAt": 1_795_222_700_000,
        "stoppedAt": 1_795_222_900_000,
        "attempts": [{}],
        "container": {"logStreamName": "g5.xlarge/default/abc"},
    } | fields


@pytest.fixture
def collect():
    """Collect one job; AWS gives no log and refuses to say whether the document exists."""
    session = boto3.Session("test", "test", region_name="us-east-1")
    clients = {
        name: session.client(name, config=Config(retries={"max_attempts": 0}))
        for name in ("s3", "batch", "logs")
    }
    stubs = {name: Stubber(clients[name]) for name in ("s3", "logs")}
    for stub in stubs.values():
        stub.activate()

    def run(job, *, reads_document):
        # On the wire: the stubber insists on a startedAt, which AWS leaves out.
        answer = HTTPResponse(BytesIO(json.dumps({"jobs": [job]}).encode()), preload_content=False)
        clients["batch"].meta.events.register(
            "before-send.batch.DescribeJobs",
            lambda request, **_: AWSResponse(request.url, 200, {}, answer),
        )
        stubs["logs"].add_client_error("get_log_events", "ResourceNotFoundException")
        stubs["s3"].add_response("put_object", {}, {"Bucket": "results", "Key": ANY} | ANY_UPLOAD)
        if reads_document:
            stubs["s3"].add_client_error("get_object", "AccessDenied", http_status_code=403)
        collected = collect_run(
            RunStore(clients["s3"], "results", "run"),
            clients["batch"],
            clients["logs"],
            run_id="run",
            planned=[PLAN],
            job_ids=[JOB_ID],
        )
        for stub in stubs.values():
            stub.assert_no_pending_responses()
        return collected

    yield run
    for client in clients.values():
        client.close()


ANY_UPLOAD = {"Body": ANY, "ContentType": ANY}


def test_a_document_that_s3_hides_loses_its_job_only(collect):
    """Without s3:ListBucket, S3 answers 403 for a key that is not there."""
    collected = collect(described("SUCCEEDED"), reads_document=True)
    assert collected.jobs == ()
    assert "can't be read (AccessDenied)" in collected.lost[0].reason


def test_a_failed_job_without_a_document_keeps_its_own_reason(collect):
    failed = described("FAILED", statusReason="Essential container in task exited")
    failed["container"]["exitCode"] = 3
    collected = collect(failed, reads_document=True)
    assert "exit code 3" in collected.lost[0].reason


def test_a_job_that_never_started_loses_itself_only(collect):
    never = described("FAILED", statusReason="Task failed to start")
    del never["startedAt"]
    collected = collect(never, reads_document=False)
    assert "Task failed to start" in collected.lost[0].reason
