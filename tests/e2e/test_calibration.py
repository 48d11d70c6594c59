"""Other runs of the main DAG's jobs: a calibration, and jobs by hand."""

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from batchmark.analysis.judging.noise import parse_table
from batchmark.aws.result_bucket import NOISE_HTML, noise_key
from batchmark.core.suites import OWN_DTYPES
from batchmark_job.result.document import parse_document
from tests.e2e.stacks import store_of
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(2400)


def test_a_calibration_leaves_each_targets_noise(calibration, aws):
    store = store_of(aws, calibration)
    for target in aws.config().targets:
        table = parse_table(store.read(noise_key("own", OWN_DTYPES, target)))
        assert (table.run_id, table.target, table.jobs) == (calibration, target, 2)
        # On a busy machine every row may be unsettled, and then it is left out with that reason.
        known = [one.row for one in (*table.rows, *table.left_out)]
        assert {row.workload for row in known} == {"softmax"}
        assert sorted(row.parameters["rows"] for row in known) == [1000, 4000]
    page = httpx.get(store.object_url(store.prefix + NOISE_HTML))
    assert "suite own, 2 jobs" in page.text


@pytest.mark.parametrize(
    ("output", "target"),
    [("submit_gpu_job_command", "g4dn.xlarge"), ("submit_cpu_job_command", "c5.2xlarge")],
)
def test_a_printed_submit_command_runs_a_job(stack, aws, output, target):
    command = stack.terraform.outputs()[output][target]
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {"PATH": tools, "HOME": str(stack.folder), "AWS_PAGER": "", **stack.aws}
    typed = subprocess.run(
        ["bash", "-c", command], env=env, capture_output=True, text=True, check=False
    )
    assert typed.returncode == 0, typed.stderr
    job_id = json.loads(typed.stdout)["jobId"]
    batch = aws.client("batch")

    def succeeded():
        (job,) = batch.describe_jobs(jobs=[job_id])["jobs"]
        assert job["status"] != "FAILED", job["statusReason"]
        return job["status"] == "SUCCEEDED"

    wait_for(succeeded, f"end of job {job_id}", 240, every=0.5)
    store = store_of(aws, "manual")
    documents = map(parse_document, map(store.read, store.keys(f"raw/manual/{target}/")))
    (document,) = [document for document in documents if document.job_id == job_id]
    assert document.target == target
