"""Whatever documents say of nodes that measure together, their report says it as text."""

import json

from hypothesis import given

from batchmark.report.model import Report, render_json
from batchmark.report.page import render_html
from batchmark.report.pages.what_if_page import render_html as what_if_html
from batchmark_job.result.document import ResultError, json_schema, parse_document
from tests.builders.hostile import changed, fuzzed
from tests.builders.reports import report_of, terminal
from tests.builders.runs import build_run
from tests.builders.scaling_runs import Cluster, scaling_job

CLUSTER = Cluster()


def rows(nodes):
    found = [CLUSTER.reading(nodes, "cold", 1e8), CLUSTER.training(nodes)]
    return [*found, *(CLUSTER.all_reduces(nodes, (1, 64)) if nodes > 1 else ())]


BASE, JOB, LAST = (scaling_job("g5.xlarge", nodes, rows(nodes)) for nodes in (1, 2, 4))
GOOD = json.loads(JOB.document.to_json())


@given(changed(GOOD, json_schema()))
@fuzzed(4)
def test_a_report_is_made_of_any_document_that_can_be_read(value):
    try:
        document = parse_document(json.dumps(value).encode())
    except ResultError:
        return
    job = JOB.model_copy(update={"document": document})
    for jobs in ((job,), (BASE, job, LAST)):
        report = report_of(build_run(*jobs))
        assert Report.model_validate_json(render_json(report)) == report
        assert "<script>alert" not in render_html(report) + (what_if_html(report) or "")
        assert "\x1b" not in terminal(report)
