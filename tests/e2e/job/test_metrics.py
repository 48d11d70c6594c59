"""Telemetry's way to CloudWatch, from a real job process."""

import socket
import time

from batchmark_job.result.document import parse_document
from tests.e2e.job.job_processes import NAMESPACE, ended

SIZES = (
    *("--workload", "matmul", "--threads", "1", "--max-seconds", "0.2", "--no-ceilings"),
    *("--metrics-namespace", NAMESPACE),
)


def test_a_cloudwatch_that_never_answers_does_no_harm(start_job, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        process = start_job(
            *(*SIZES, "--axis", "size=16", "--device", "cpu"),
            *("--output", f"{tmp_path}/result.json"),
            AWS_ENDPOINT_URL=f"http://127.0.0.1:{silent.getsockname()[1]}",
        )
        assert any("wrote" in line for line in process.stdout), ended(process)
        written = time.monotonic()
        out, _ = ended(process)
        assert time.monotonic() - written < 60, "it waited for more than its limit"
    (warning,) = [line for line in out.splitlines() if line.startswith("batchmark-job: ")]
    assert warning.startswith("batchmark-job: warning: metrics not published: ")
    assert parse_document((tmp_path / "result.json").read_bytes()).status == "complete"
