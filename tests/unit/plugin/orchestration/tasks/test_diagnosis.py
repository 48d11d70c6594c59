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
INVALID = Finding.of("queue_invalid", "<script>alert(1)</script>", certain=True)


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


def test_the_page_tells_what_was_checked_and_escapes_what_aws_said():
    def page(**fields):
        asked = {"queue": "queue", "job_id": None, "asked_at": NOW, "checked": ("the queue",)}
        diagnosis = Diagnosis(**{"findings": (), "unread": ()} | asked | fields)
        report = DiagnosisReport(created_at=NOW, region="us-east-1", diagnoses=(diagnosis,))
        return page_html(diagnosis_page(report))

    healthy, told = page(), page(unread=("a <b>",), findings=(INVALID,))
    assert "Found nothing that would keep a job in queue queue from starting." in healthy
    assert "Checked: the queue." in healthy
    for text in ("a &lt;b&gt;", "&lt;script&gt;alert(1)&lt;/script&gt;", "1 certain (queue_inva"):
        assert text in told
    assert "<script>" not in told
