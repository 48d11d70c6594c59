"""Whatever a document says of tasks that share a device, its report is made and says it as text."""

import json

from hypothesis import given

from batchmark.report.model import Report, render_json
from batchmark.report.page import render_html
from batchmark_job.result.document import ResultError, json_schema, parse_document
from tests.builders.hostile import changed, fuzzed
from tests.builders.reports import report_of, terminal
from tests.builders.runs import build_run
from tests.builders.sharing import curve_rows, shared_row, sharing_job

ROWS = [
    shared_row("exclusive", 1, 100.0),
    *curve_rows("time_slicing", {1: 99.0, 4: 160.0}),
    shared_row("time_slicing", 4, 150.0, disturbance="crash"),
]
JOB = sharing_job("g5.xlarge", ROWS)
GOOD = json.loads(JOB.document.to_json())


@given(changed(GOOD, json_schema()))
@fuzzed(12)
def test_a_report_is_made_of_any_document_that_can_be_read(value):
    try:
        document = parse_document(json.dumps(value).encode())
    except ResultError:
        return
    report = report_of(build_run(JOB.model_copy(update={"document": document})))
    assert Report.model_validate_json(render_json(report)) == report
    assert "<script>alert" not in render_html(report)
    assert "\x1b" not in terminal(report)
