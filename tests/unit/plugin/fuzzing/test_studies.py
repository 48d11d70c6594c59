"""Whatever a document says of own jobs, shared tasks or nodes, its report says it as text."""

import json

import pytest
from hypothesis import strategies as st

from batchmark.report.model import Report, render_json
from batchmark.report.page import page_html
from batchmark.report.studies import beside
from batchmark_job.result.document import ResultError, json_schema, parse_document
from batchmark_job.result.own_job import BadLine
from tests.builders.hostile import changed, fuzz
from tests.builders.noise import quick_and_long
from tests.builders.own_jobs import CPU, GPU, LARGE, SMALL
from tests.builders.reports import render_html, report_of, terminal
from tests.builders.runs import build_run
from tests.builders.scaling_runs import Cluster, scaling_job
from tests.builders.sharing import curve_rows, shared_row, sharing_job

CLUSTER = Cluster()


def of_nodes(nodes):
    rows = [CLUSTER.reading(nodes, "cold", 1e8), CLUSTER.training(nodes)]
    rows += CLUSTER.all_reduces(nodes, (1, 64)) if nodes > 1 else ()
    return scaling_job("g5.xlarge", nodes, rows)


OF_TASKS = [
    shared_row("exclusive", 1, 100.0),
    *curve_rows("time_slicing", {1: 99.0, 4: 160.0}),
    shared_row("time_slicing", 4, 150.0, disturbance="crash"),
]
LINE = BadLine(source="log", number=1, text="{", problem="no JSON")
# The job whose document is changed, and the others of its run.
RUNS = {
    "own jobs": (
        GPU.job(SMALL, bad_lines=(LINE,)),
        [GPU.job(SMALL, 2), GPU.job(LARGE, 1), CPU.job(SMALL, 1), CPU.job(LARGE, 1)],
    ),
    "shared tasks": (sharing_job("g5.xlarge", OF_TASKS), []),
    "nodes": (of_nodes(2), [of_nodes(1), of_nodes(4)]),
}


@quick_and_long("examples", [6], [300], pytest.mark.timeout(1800))
@pytest.mark.parametrize("kind", RUNS)
def test_a_report_is_made_of_any_document_that_can_be_read(kind, examples):
    good = json.loads(RUNS[kind][0].document.to_json())
    fuzz(examples, check, changed(good, json_schema()), st.just(RUNS[kind]))


def check(made, run):
    job, others = run
    try:
        document = parse_document(json.dumps(made).encode())
    except ResultError:
        return
    job = job.model_copy(update={"document": document})
    for jobs in ([job], [job, *others]) if others else ([job],):
        report = report_of(build_run(*jobs))
        assert Report.model_validate_json(render_json(report)) == report
        pages = [render_html(report, drawn=True), *(page_html(one.page) for one in beside(report))]
        assert "<script>alert" not in "".join(pages)
        assert "\x1b" not in terminal(report)
