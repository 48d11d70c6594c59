"""The document's way to S3: moto for what works, a small server of our own for what does not."""

import signal
import socket
from threading import Event

import pytest

from batchmark_job.result.document import parse_document
from tests.e2e.job.conftest import ended
from tests.stand_ins.http import QuietHandler, serving_by
from tests.waiting import PATIENCE_SECONDS

QUICK = ("--threads", "1", "--max-seconds", "0.1", "--no-ceilings")
TINY = ("--workload", "matmul", "--axis", "size=16", *QUICK)


@pytest.fixture(scope="module")
def s3(moto_client):
    return moto_client("s3")


class _StubbornHandler(QuietHandler):
    def do_POST(self):  # noqa: N802
        if self.server.hang_ups:
            self.server.hang_ups -= 1
            self.close_connection = True
            return
        self._answer(
            200,
            "<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>k</Key>"
            "<UploadId>1</UploadId></InitiateMultipartUploadResult>",
        )

    def do_DELETE(self):  # noqa: N802
        self._answer(204)

    def do_PUT(self):  # noqa: N802
        self.server.document_arrived.set()
        if not self.server.answers:
            self.server.closing.wait()
        self._answer(403, "<Error><Code>AccessDenied</Code><Message>no</Message></Error>")

    def _answer(self, status, body=""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())


@pytest.fixture(params=[True])
def stubborn_s3(request):
    """Accepts the check, maybe not at once, and then refuses the document, or never answers."""
    with serving_by(_StubbornHandler) as server:
        server.url = f"http://127.0.0.1:{server.server_port}"
        server.answers = request.param
        server.hang_ups = 0  # connections to close without an answer
        server.document_arrived, server.closing = Event(), Event()
        yield server
        server.closing.set()


def test_document_goes_to_s3(start_job, s3):
    s3.create_bucket(Bucket="results")
    process = start_job(
        *TINY,
        "--output",
        "s3://results/raw/a-run/",
        AWS_ENDPOINT_URL=s3.meta.endpoint_url,
        AWS_BATCH_JOB_ID="an-id",
    )
    out, _ = ended(process)
    assert (
        "\nbatchmark-job: wrote s3://results/raw/a-run/an-id.1.json\n\nsuite custom on cpu" in out
    )
    (entry,) = s3.list_objects_v2(Bucket="results")["Contents"]
    body = s3.get_object(Bucket="results", Key=entry["Key"])["Body"].read()
    assert parse_document(body).job_id == "an-id"
    assert "Uploads" not in s3.list_multipart_uploads(Bucket="results")


def test_a_bucket_or_an_s3_that_is_not_there_is_found_out_before_measuring(start_job, s3):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{unused.getsockname()[1]}"
        for url, said in ((s3.meta.endpoint_url, "NoSuchBucket"), (nobody, "Could not connect")):
            process = start_job(*TINY, "--output", "s3://nowhere/a.json", AWS_ENDPOINT_URL=url)
            out, err = ended(process, 2)
            assert out == ""
            assert "s3://nowhere/a.json: can't write there" in err
            assert said in err
            assert err.count("\n") == 1


def test_an_s3_that_is_away_for_a_moment_is_waited_for_and_a_refused_document_is_kept(
    start_job, stubborn_s3, tmp_path
):
    stubborn_s3.hang_ups = 3
    process = start_job(*TINY, "--output", "s3://b/k.json", AWS_ENDPOINT_URL=stubborn_s3.url)
    _, err = ended(process, 4)
    assert stubborn_s3.hang_ups == 0
    assert stubborn_s3.document_arrived.is_set()
    kept = tmp_path / "batchmark-local.1.json"
    assert err.startswith("batchmark-job: error: could not write s3://b/k.json: ")
    assert err.endswith(f"the document is above in this log and in {kept}\n")
    assert parse_document(kept.read_bytes()).status == "complete"


@pytest.mark.parametrize("stubborn_s3", [False], indirect=True)
def test_second_signal_ends_a_hanging_write(start_job, stubborn_s3):
    process = start_job(
        *("--workload", "matmul", "--axis", "size=16,10000", *QUICK),
        *("--output", "s3://b/k.json"),
        AWS_ENDPOINT_URL=stubborn_s3.url,
    )
    # On a busy machine the first turn may use up the limit: then the row is said to have ended.
    assert any("] matmul size=16 " in line for line in process.stdout)
    process.send_signal(signal.SIGTERM)
    assert stubborn_s3.document_arrived.wait(PATIENCE_SECONDS)
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=4)  # less than the write's own time limit
    assert process.returncode == 143
