"""The task of diagnose_queue with moto: its table, its files, its errors."""

import boto3
import pytest
from airflow.sdk.exceptions import AirflowFailException

from batchmark.checks.diagnosis.records import Diagnosis, Finding
from batchmark.core.names import slug
from batchmark.orchestration.tasks import diagnosis as diagnosis_tasks
from batchmark.report.page import page_html
from batchmark.report.pages.table_pages import DiagnosisReport, diagnosis_page
from tests.builders.installations import configured, published
from tests.stand_ins.diagnosis_answers import NOW
from tests.stand_ins.moto_account import moto_account

RUN_ID = "manual__2026-11-21T12:00:00+00:00"


@pytest.fixture
def s3(monkeypatch):
    config = configured()
    monkeypatch.setattr(diagnosis_tasks, "load_config", lambda: config)
    with moto_account():
        client = boto3.client("s3", region_name=config.region)
        client.create_bucket(Bucket=config.bucket)
        yield lambda key: client.get_object(Bucket=config.bucket, Key=key)["Body"].read().decode()


def run(*targets):
    return diagnosis_tasks.diagnose_queues({"run_id": RUN_ID, "params": {"targets": list(targets)}})


@pytest.mark.parametrize("targets", [(), ("g5.xlarge",)])
def test_each_queue_of_the_targets_is_diagnosed_once(s3, capsys, targets):
    key = run(*targets)
    assert key == f"diagnoses/{slug(RUN_ID)}.html"
    report = DiagnosisReport.model_validate_json(s3(key.replace(".html", ".json")))
    known = published()["targets"]
    kinds = ("job_queue", "on_demand_queue")
    queues = [known[name][kind] for name in targets or known for kind in kinds]
    assert sorted(each.queue for each in report.diagnoses) == sorted(queues)
    assert {each.findings[0].cause for each in report.diagnoses} == {"queue_unknown"}
    printed = capsys.readouterr().out
    assert "queue_unknown" in printed
    assert "Run `terraform apply`, then resubmit any jobs" in printed
    assert "Diagnosis: https://" in printed
    assert "Run `terraform apply`" in s3(key)


def test_an_unknown_target_is_refused(s3):
    with pytest.raises(AirflowFailException, match=r"unknown target 'p9\.large'"):
        run("p9.large")


def page_of(*findings, unread=()):
    diagnosis = Diagnosis(
        queue="queue",
        job_id=None,
        asked_at=NOW,
        findings=findings,
        checked=("the queue",),
        unread=unread,
    )
    report = DiagnosisReport(created_at=NOW, region="us-east-1", diagnoses=(diagnosis,))
    return page_html(diagnosis_page(report))


def test_the_page_escapes_what_aws_said():
    hostile = "<script>alert(1)</script>"
    page = page_of(Finding.of("queue_invalid", hostile, certain=True), unread=(hostile,))
    assert hostile not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 2
    assert "1 certain (queue_invalid)" in page


def test_the_page_of_a_queue_without_findings_lists_the_checks():
    page = page_of()
    assert "Found nothing that would keep a job in queue queue from starting." in page
    assert "Checked: the queue." in page
