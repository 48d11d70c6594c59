"""What a real GPU's documents say: read, compared and drawn as any run's are."""

import gzip
from itertools import pairwise

import pytest

from batchmark_job.result.document import parse_document
from tests.builders.reports import render_html, report_of, terminal
from tests.builders.runs import build_job, build_run
from tests.paths import ROOT

FOLDER = ROOT / "tests" / "data" / "recorded"
# Of a size by the next smaller one's: its largest sum has a faster kernel.
LEAST_GROWTH = {"reduction": 0.75}


def recorded(name):
    return parse_document(gzip.decompress((FOLDER / name).read_bytes()))


def of_h200(device):
    return recorded(f"h200-smoke-{device}-2026-11-26.json.gz")


@pytest.fixture(scope="module")
def report():
    jobs = []
    for target, device in (("p5en.48xlarge", "cuda"), ("c5.2xlarge", "cpu")):
        document = of_h200(device)
        job = build_job(target, document.measurements, suite="smoke")
        measured = {"measurements": document.measurements, "environment": document.environment}
        jobs.append(job.model_copy(update={"document": job.document.model_copy(update=measured)}))
    return report_of(build_run(*jobs))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json.gz")), ids=lambda path: path.name)
def test_every_document_is_read_and_stands_in_the_folder_s_list(path):
    assert recorded(path.name).measurements
    assert f"| `{path.name}` |" in (FOLDER / "README.md").read_text()


def test_a_row_that_never_settled_is_not_compared_and_no_other_is_an_ec2_instances(report):
    (pair,) = report.pairs
    assert len(pair.rows) == 25
    assert all(row.speedup for row in pair.rows)
    ((workload, parameters),) = [(row.workload, row.parameters) for row in pair.uncompared]
    assert (workload, parameters) == ("cnn_training_step", {"batch": 2})
    for said in (terminal(report), render_html(report, drawn=True)):
        assert "a machine outside EC2" in said
        assert "NVIDIA H200" in said


def test_the_gpu_s_own_times_rise_with_the_work_which_lone_calls_do_not():
    kernels, lone = {}, {}
    for row in of_h200("cuda").measurements:
        if row.phases.kernel_seconds:
            kernels.setdefault(row.workload, []).append((row.flops or row.bytes_moved, row))
    growth = {}
    for workload, rows in kernels.items():
        ordered = [row for _, row in sorted(rows, key=lambda pair: pair[0])]
        for smaller, larger in pairwise(ordered):
            growth.setdefault(workload, []).append(
                larger.phases.kernel_seconds / smaller.phases.kernel_seconds
            )
            lone.setdefault(workload, []).append(
                larger.phases.compute_seconds / smaller.phases.compute_seconds
            )
    for workload, ratios in growth.items():
        assert min(ratios) >= LEAST_GROWTH.get(workload, 0.95), workload
    assert min(lone["reduction"]) < 0.5
