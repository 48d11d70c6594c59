"""Whatever a job leaves as its document costs that job at most, from collecting to the report."""

import json
import re
from types import SimpleNamespace

import pytest
from hypothesis import strategies as st

from batchmark.analysis.comparison import Comparison, compare
from batchmark.aws.result_bucket import PRICES as PRICES_NAME
from batchmark.aws.result_bucket import RunStore
from batchmark.changes.detection import detect_changes
from batchmark.changes.metric import Metric
from batchmark.core.names import full_name
from batchmark.history.columns import ALL_COLUMNS
from batchmark.history.parquet import encode_rows
from batchmark.history.rebuild import rebuild
from batchmark.history.rows import history_rows
from batchmark.history.series import series_histories
from batchmark.history.store import HistoryStore
from batchmark.report.model import build_report, render_json
from batchmark.runs.collected_runs import readable_run, store_run
from batchmark.runs.collecting import collect_run
from batchmark.runs.result_documents import ExpectedDocument, key_of
from batchmark_job.result.document import json_schema
from tests.builders.history import BUCKET, REGION, two_targets
from tests.builders.hostile import fuzz, texts
from tests.builders.installations import configured, target
from tests.builders.noise import quick_and_long
from tests.builders.reports import NOON, render_html, terminal
from tests.builders.runs import PRICES
from tests.builders.watched_jobs import described
from tests.stand_ins.batch import TAGS, FakeBatch
from tests.stand_ins.bucket import MemoryBucket
from tests.stand_ins.marked_log import MarkedLog

RUN = two_targets(9)
HOSTILE, GOOD = RUN.jobs
EARLIER = [row for day in range(9) for row in history_rows(two_targets(day), PRICES)]
CONFIG = configured(
    bucket=BUCKET,
    targets={job.planned.target: target(job.planned.device, job_queue="queue") for job in RUN.jobs},
)


def finished(batch, job):
    name = full_name(f"{CONFIG.name}-{job.planned.target}-blog-1".replace(".", "-"), RUN.run_id, 0)
    times = {
        f"{step}At": int(getattr(job, f"{step}_at").timestamp() * 1000)
        for step in ("created", "started", "stopped")
    }
    batch.jobs[job.job_id] = described(jobId=job.job_id, jobName=name, tags=TAGS, **times)


def collected_with(text):
    """A run of two jobs, of which one left `text`."""
    s3, batch = MemoryBucket(BUCKET, REGION), FakeBatch()
    store = RunStore(s3, BUCKET, RUN.run_id)
    store.write(PRICES_NAME, PRICES.model_dump_json())
    for job, body in ((HOSTILE, text), (GOOD, GOOD.document.to_json().encode())):
        uri = ExpectedDocument.of(RUN.run_id, job.planned).uri(job.job_id, 1)
        s3.objects[key_of(uri)] = body
        finished(batch, job)
    planned, job_ids = zip(*((job.planned, job.job_id) for job in RUN.jobs), strict=True)
    asked = {"run_id": RUN.run_id, "planned": planned, "job_ids": job_ids, "config": CONFIG}
    run = collect_run(store, batch, MarkedLog([]), **asked)
    return SimpleNamespace(s3=s3, store=store, run=run)


def check_report(made):
    key = store_run(made.store, made.run)
    assert readable_run(made.store, key) == made.run
    comparison = Comparison.model_validate_json(compare(made.run, PRICES).model_dump_json())
    report = build_report(comparison, created_at=NOON)
    assert json.loads(render_json(report))["run_id"] == RUN.run_id
    assert GOOD.planned.target in render_html(report, drawn=True)
    assert GOOD.planned.target in terminal(report)


def check_history(made):
    """All rows are there, a rebuild gives the same, and what reads them goes on."""
    history = HistoryStore(made.s3, BUCKET)
    history.append(made.run, PRICES, made.store.name)
    count = sum(len(job.document.measurements) for job in made.run.jobs)
    assert history.read(ALL_COLUMNS).num_rows == count
    rebuilt = rebuild(made.s3, BUCKET, REGION)
    assert (rebuilt.written, rebuilt.removed, rebuilt.problems) == ([], [], [])
    for key, body in encode_rows(EARLIER, "earlier").items():
        history.objects.put(key, body)
    table = history.read(ALL_COLUMNS)
    assert table.num_rows == count + len(EARLIER)
    for metric in Metric:
        detect_changes(series_histories(table, metric))
    assert history.unreadable == []


def check(text, seen):
    """Follow a document as far as it comes; `seen` are the reasons why others were lost."""
    made, before = collected_with(text), len(seen)
    jobs = {job.planned.target: job for job in made.run.jobs}
    assert jobs.pop(GOOD.planned.target).document == GOOD.document
    for lost in made.run.lost:
        assert lost.planned == HOSTILE.planned
        assert "result document" in lost.reason or "expected" in lost.reason
        seen.add(re.sub(r"[0-9]+", "0", lost.reason))
    assert len(jobs) + len(made.run.lost) == 1
    if jobs:
        check_report(made)
        check_history(made)
    elif len(seen) > before:  # a report shows no more of the document than this reason
        check_report(made)


DOCUMENTS = texts(json.loads(HOSTILE.document.to_json()), json_schema())


@quick_and_long("examples", [12], [10_000], pytest.mark.timeout(1800))
def test_no_document_costs_more_than_its_job(examples):
    fuzz(examples, check, DOCUMENTS, st.just(set()))
