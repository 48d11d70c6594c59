"""A result bucket as some runs leave it: results, history, reports, alerts and bookings."""

from datetime import UTC, datetime

from batchmark.analysis.comparison import compare
from batchmark.aws.result_bucket import REPORT_HTML, REPORT_JSON, SUMMARY, RunStore
from batchmark.changes.alerts.store import AlertStore
from batchmark.core.run import RunPlan
from batchmark.report.answer import summarize
from batchmark.report.model import build_report, render_json
from batchmark.runs.spending import RunSpending, spending_key
from tests.builders.alerts import opened
from tests.builders.history import BUCKET, REGION, ResultBucket, two_targets
from tests.builders.leaks import config
from tests.builders.reports import render_html
from tests.builders.runs import PRICES
from tests.stand_ins.bucket import MemoryBucket

NOW = datetime(2026, 12, 24, 12, tzinfo=UTC)


def installation():
    return config().model_copy(update={"bucket": BUCKET, "region": REGION})


class Shelf:
    """A bucket in memory that runs are put into, as the tasks of a benchmark would."""

    def __init__(self):
        self.s3 = MemoryBucket(BUCKET, REGION)
        self.bucket = ResultBucket(self.s3, self.s3.calls)

    def store(self, run_id):
        return RunStore(self.s3, BUCKET, run_id)

    def measured(self, day=0, slowdown=1.0, *, page=False, **fields):
        """A run with its report, of which only few tests read the page; returns its id."""
        run = two_targets(day, slowdown, **fields)
        self.bucket.append(run)
        self.report(run, page=page)
        return run.run_id

    def report(self, run, changes=None, *, page=True):
        store = self.store(run.run_id)
        linked = [
            job.model_copy(
                update={"document_url": store.object_url(job.document_uri.split("/", 3)[3])}
            )
            for job in run.jobs
        ]
        run = run.model_copy(update={"jobs": tuple(linked)})
        report = build_report(compare(run, PRICES), created_at=NOW, changes=changes)
        store.write(REPORT_JSON, render_json(report))
        drawn = render_html(report, drawn=True) if page else "not drawn: ask for page=True"
        store.write(REPORT_HTML, drawn)
        store.write(SUMMARY, summarize(report).model_dump_json())
        return report

    def booked(self, run_id, usd, *, finished=True, at=NOW, job="job-1"):
        store = self.store(run_id)
        spending = RunSpending(
            run_id=run_id,
            planned_at=at,
            generation=0,
            reserved_usd=0.0 if finished else usd,
            finished=finished,
            job_usd={job: usd} if finished else {},
        )
        store.put(spending_key(store, at), spending.model_dump_json())

    def planned(self, run_id, **fields):
        """What a run planned, whose report may be there, too."""
        plan = RunPlan(**{"jobs": (), "run_id": run_id} | fields)
        self.store(run_id).write("plan.json", plan.model_dump_json())

    def alert(self, *changes):
        """An open alert; returns it."""
        (alert,) = opened(*changes)
        store = AlertStore(self.store(""))
        self.s3.objects[f"alerts/{alert.id}.json"] = alert.model_dump_json().encode()
        return next(one for one in store.alerts() if one.id == alert.id)
