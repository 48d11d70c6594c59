"""Whatever documents say of own jobs, their report says it as text."""

import json

from hypothesis import given

from batchmark.report.model import Report, render_json
from batchmark.report.page import render_html
from batchmark_job.result.document import ResultError, json_schema, parse_document
from batchmark_job.result.own_job import BadLine
from tests.builders.hostile import changed, fuzzed
from tests.builders.own_jobs import CPU, GPU, LARGE, SMALL
from tests.builders.reports import report_of, terminal
from tests.builders.runs import build_run

LINE = BadLine(source="log", number=1, text="{", problem="no JSON")
JOB = GPU.job(SMALL, bad_lines=(LINE,))
OTHERS = [GPU.job(SMALL, 2), GPU.job(LARGE, 1), CPU.job(SMALL, 1), CPU.job(LARGE, 1)]
GOOD = json.loads(JOB.document.to_json())


@given(changed(GOOD, json_schema()))
@fuzzed(4)
def test_a_report_is_made_of_any_document_that_can_be_read(value):
    try:
        document = parse_document(json.dumps(value).encode())
    except ResultError:
        return
    job = JOB.model_copy(update={"document": document})
    for jobs in ((job,), (job, *OTHERS)):
        report = report_of(build_run(*jobs))
        assert Report.model_validate_json(render_json(report)) == report
        assert "<script>alert" not in render_html(report)
        assert "\x1b" not in terminal(report)
