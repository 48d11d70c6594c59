"""A job's log as a page: in parts, and with an end, also where the job goes on printing."""

from types import SimpleNamespace

from moto.logs.models import logs_backends
from werkzeug.test import Client
from werkzeug.wrappers import Response

from local_cloud.batch.running.log_stream import MAX_EVENT_BYTES, LogStream
from local_cloud.log_pages import LogPages, page

ACCOUNT, REGION = "123456789012", "us-east-1"


def test_a_log_is_sent_in_parts_however_long_its_lines_are(logs_on_disk):
    stream = LogStream(logs_backends[ACCOUNT][REGION], "pages", "name")
    stream.create()
    line = b"x" * MAX_EVENT_BYTES
    for _ in range(20):
        stream.write(line, b"end\n", written_at=1000)
    job = SimpleNamespace(
        id="job-1",
        status="RUNNING",
        arn=f"arn:aws:batch:{REGION}:{ACCOUNT}:job/job-1",
        submission=SimpleNamespace(main_node=None, containers=[SimpleNamespace(log_group="pages")]),
        attempts=[SimpleNamespace(nodes=[SimpleNamespace(log_stream_name="name")])],
    )
    sent = page(job)
    first, part = next(sent), next(sent)
    stream.write(b"of a later time\n", written_at=2**41)
    parts = [part, *sent]
    stream.backend.delete_log_group("pages")
    assert first == "Job job-1 is RUNNING, attempt 1\n"
    assert "".join(parts) == f"{line.decode()}\nend\n" * 20
    assert max(map(len, parts)) < 4 * 2**20


def test_a_job_without_a_log_has_a_page_and_no_job_none(batch, queue):
    pages = Client(LogPages(Response("served")))
    waits = batch.submit(dependsOn=[{"jobId": batch.submit()}])
    found = pages.get(f"/local-cloud/jobs/{waits}/log")
    assert found.text == f"Job {waits} is PENDING and has no log yet.\n"
    missing = pages.get("/local-cloud/jobs/none/log")
    assert (missing.status_code, missing.text) == (404, "The local cloud has no job none\n")
