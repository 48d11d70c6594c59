"""Telemetry's way to CloudWatch, from a real job process."""

import socket
import time
from datetime import UTC, datetime, timedelta

import psutil
import pytest
import torch

from batchmark_job.result.document import parse_document
from tests.e2e.job.job_processes import NAMESPACE, ended, metrics_of, skip_where_too_slow_to_publish

SIZES = (
    *("--workload", "matmul", "--threads", "1", "--max-seconds", "0.2", "--no-ceilings"),
    *("--metrics-namespace", NAMESPACE),
)


@pytest.fixture(scope="module")
def cloudwatch(moto_client):
    return moto_client("cloudwatch")


def datapoints(cloudwatch, target, metric):
    now = datetime.now(UTC)
    return cloudwatch.get_metric_statistics(
        Namespace=NAMESPACE,
        MetricName=metric,
        Dimensions=[{"Name": "Target", "Value": target}],
        StartTime=now - timedelta(hours=1),
        EndTime=now + timedelta(minutes=1),
        Period=60,
        Statistics=["SampleCount", "Minimum", "Average", "Maximum"],
    )["Datapoints"]


def test_a_job_on_the_cpu_publishes_cpu_metrics_only(start_job, cloudwatch, tmp_path):
    target = "g5.xlarge"
    fallback = ("--device", "cuda", "--allow-cpu-fallback")
    process = start_job(
        *(*SIZES, "--axis", "size=300"),
        *(("--device", "cpu") if torch.cuda.is_available() else fallback),
        *("--target", target, "--output", f"{tmp_path}/result.json"),
        AWS_ENDPOINT_URL=cloudwatch.meta.endpoint_url,
    )
    out, _ = ended(process)
    skip_where_too_slow_to_publish(out)
    assert "warning" not in out
    assert metrics_of(cloudwatch, target) == {"CPUUtilization", "MemoryUsed"}
    started_at = parse_document((tmp_path / "result.json").read_bytes()).started_at
    cpu = datapoints(cloudwatch, target, "CPUUtilization")
    assert sum(point["SampleCount"] for point in cpu) >= 1
    for point in cpu:
        assert point["Unit"] == "Percent"
        # A starved job may go without CPU time for one sample, but not for all of them.
        assert 0 <= point["Minimum"] <= point["Average"] <= point["Maximum"] <= 100
        assert point["Timestamp"] >= started_at.replace(second=0, microsecond=0)
    assert max(point["Maximum"] for point in cpu) > 0
    memory = datapoints(cloudwatch, target, "MemoryUsed")
    assert sum(point["SampleCount"] for point in memory) >= 2
    for point in memory:
        assert point["Unit"] == "Megabytes"
        assert 50 < point["Minimum"] <= point["Maximum"] < psutil.virtual_memory().total / 1e6


def test_a_cloudwatch_that_never_answers_does_no_harm(start_job, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        process = start_job(
            *(*SIZES, "--axis", "size=16", "--device", "cpu"),
            *("--output", f"{tmp_path}/result.json"),
            AWS_ENDPOINT_URL=f"http://127.0.0.1:{silent.getsockname()[1]}",
        )
        assert any("wrote" in line for line in process.stdout)
        written = time.monotonic()
        out, _ = ended(process)
        assert time.monotonic() - written < 60, "it waited for more than its limit"
    (warning,) = [line for line in out.splitlines() if line.startswith("batchmark-job: ")]
    assert warning.startswith("batchmark-job: warning: metrics not published: ")
    assert parse_document((tmp_path / "result.json").read_bytes()).status == "complete"
