"""What DAGs left in the bucket, and which of their calls AWS refused, as steps see it."""

import re
from datetime import UTC, datetime
from functools import partial
from unittest.mock import MagicMock, Mock

import httpx
import pytest
from botocore.exceptions import ConnectTimeoutError

from batchmark.aws.result_bucket import RunStore
from batchmark.checks.leak_records import GuardReport
from batchmark.checks.records import Check, EnvironmentCheck
from batchmark.core.prices import AWS_SOURCE, load_prices
from batchmark_job.result.own_job import OwnersCheck
from laptop.aws_check import check as check_module
from laptop.aws_check.step import NotCheckedError, StepError
from laptop.aws_check.steps import local_airflow
from laptop.aws_check.steps.local_airflow import FORBIDDEN_CALLS, GUARD_FOLDER, LocalAirflow, Run
from tests.builders.own_jobs import GPU, PASSED, failed
from tests.stand_ins.bucket import MemoryBucket
from tests.unit.laptop.aws_check.conftest import told_by

NOW = datetime(2026, 12, 1, tzinfo=UTC)
READING, WRITING, SUBMITTING = FORBIDDEN_CALLS


@pytest.fixture
def airflow(check_of, monkeypatch):
    """An Airflow whose run ended so, and left these files of its own and these objects."""

    def made(*, failure="", on_aws=True, objects=None, **texts):
        airflow = LocalAirflow(check_of(on_aws=on_aws))
        s3 = MemoryBucket("results", "us-east-1")
        store = RunStore(s3, "results", "run")
        for name, text in texts.items():
            store.write(f"{name}.json", text)
        for key, text in (objects or {}).items():
            store.put(key, text)
        monkeypatch.setattr(airflow, "_run", lambda *_: Run("run", 0.25, failure))
        monkeypatch.setattr(airflow, "_store", partial(RunStore, s3, "results"))
        return airflow

    return made


def checked(*statuses):
    checks = tuple(
        Check(name="role", target="all", status=status, seen=f"{status}.") for status in statuses
    )
    found = EnvironmentCheck(
        installation="batchmark-check", region="us-east-1", checked_at=NOW, checks=checks
    )
    return found.model_dump_json()


NOT_CHECKED = checked("ok", "not checked")


@pytest.mark.parametrize(
    ("left", "ok", "told"),
    [
        ({"environment": checked("ok", "ok")}, True, "2 ok"),
        ({"environment": NOT_CHECKED, "on_aws": False}, True, "1 not checked, 1 ok"),
        ({"environment": NOT_CHECKED}, False, "1 not checked, 1 ok: role: not checked."),
        ({"environment": checked("ok", "fail"), "failure": "a log"}, False, "role of all: fail."),
        ({"failure": "the scheduler died"}, False, "the scheduler died"),
    ],
)
def test_an_environment_check_is_summed_up_and_fails_where_not_all_is_ok(airflow, left, ok, told):
    went_well, said = told_by(airflow(**left).environment_check)
    assert (went_well, told in said) == (ok, True)


PRICES = load_prices().model_copy(update={"source": AWS_SOURCE}).model_dump_json()


@pytest.mark.parametrize(
    ("left", "told"),
    [
        ({"failure": "RUNNABLE for 30 minutes"}, "RUNNABLE"),
        ({"prices": PRICES}, "no report for run"),
        (
            {"report": "{}", "prices": load_prices().model_dump_json()},
            r"prices dated .* from .*, as rec",
        ),
        ({"report": "{}"}, "prices.json is missing from the bucket"),
    ],
)
def test_a_run_is_its_report_with_prices_of_aws_and_its_cost_and_any_other_fails(
    airflow, left, told
):
    seen = airflow(report="{}", prices=PRICES).benchmark()
    assert seen.text.endswith(f"from {AWS_SOURCE}")
    assert seen.usd == 0.25
    with pytest.raises(StepError, match=told):
        airflow(**left).own_job()


CHECKED = OwnersCheck(kind="command", passed=True)


@pytest.mark.parametrize(
    ("checks", "told", "ok"),
    [
        ([CHECKED, CHECKED], "passed in 2 of 2 jobs", True),
        ([CHECKED, failed()], "passed in 1 of 2 jobs", False),
        ([PASSED], "passed in 0 of 1 job", False),  # by its exit code alone
        ([], "passed in 0 of 0 jobs", False),
    ],
)
def test_an_own_jobs_check_passes_in_each_job(airflow, checks, told, ok):
    jobs = [GPU.job(repeat=number, check=check) for number, check in enumerate(checks, 1)]
    left = {f"raw/run/{job.job_id}.json": job.document.to_json() for job in jobs}
    found = airflow(report="{}", prices=PRICES, objects={**left, "raw/run/0.log": "no document"})
    went_well, said = told_by(found.own_job)
    assert (went_well, told in said) == (ok, True)


def guarded(**unread):
    report = GuardReport(
        installation="batchmark-check", region="us-east-1", looked_at=NOW, resources=(), **unread
    )
    return {f"{GUARD_FOLDER}2026-12-01/run.json": report.model_dump_json()}


def test_the_guard_finds_nothing_and_reads_all(airflow):
    assert airflow(objects=guarded()).leak_guard().text == "nothing runs"
    with pytest.raises(StepError, match="instances: AccessDenied"):
        airflow(objects=guarded(unread=("instances: AccessDenied",))).leak_guard()


@pytest.fixture
def logs(tmp_path):
    folder = tmp_path / "airflow" / "logs" / "dag_id=environment_check"
    folder.mkdir(parents=True)
    (folder / "attempt=1.log").write_text("fine\n")
    return folder


def test_a_call_that_was_refused_fails_the_rights_but_a_local_cloud_refuses_nothing(airflow, logs):
    with pytest.raises(NotCheckedError, match="does not enforce policies"):
        airflow(on_aws=False).rights()
    (logs / "attempt=2.log").write_text("fine\nAccessDeniedException: batch:DescribeJobs\n")
    with pytest.raises(StepError, match="refused a call: AccessDeniedException: batch:Desc"):
        airflow().rights()


ACCESS_DENIED = ("AccessDeniedException", "not authorized")


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ({}, None),
        ({READING: None}, f"^{READING}: not refused$"),
        ({READING: ("ParameterNotFound", "")}, f"^{READING}: not refused$"),
        ({WRITING: None}, f"^{WRITING}: not refused$"),
        (
            {SUBMITTING: ("ClientException", "JobQueue another not found.")},
            f"^{SUBMITTING}: not refused$",
        ),
        (
            dict.fromkeys(FORBIDDEN_CALLS, ("ExpiredToken", "The token has expired")),
            f"{WRITING}: neither allowed nor refused: .*ExpiredToken.*; {SUBMITTING}: neither",
        ),
        ({WRITING: ("ServerException", "try again")}, f"^{WRITING}: neither .* try again$"),
        ({WRITING: ("ParameterNotFound", "of another service")}, f"^{WRITING}: neither"),
    ],
)
def test_calls_beyond_its_rights_have_to_be_refused(
    airflow, logs, clients, monkeypatch, answers, told
):
    for what, beyond in FORBIDDEN_CALLS.items():
        answer = answers.get(what, ACCESS_DENIED)
        if answer:
            clients.refuse(beyond.service, beyond.operation, *answer)
        else:
            clients.answer(beyond.service, beyond.operation, {})
    role = Mock()
    role.session().client = clients
    found = airflow()
    monkeypatch.setattr(found, "_role", role)
    went_well, said = told_by(found.rights)
    assert went_well is (told is None)
    assert re.search(told or READING, said)


def test_an_answer_that_does_not_come_is_no_refusal(airflow, logs, monkeypatch):
    gone = Mock(side_effect=ConnectTimeoutError(endpoint_url="https://aws"))
    role = Mock()
    role.session().client.return_value = Mock(get_parameter=gone, put_object=gone, submit_job=gone)
    found = airflow()
    monkeypatch.setattr(found, "_role", role)
    with pytest.raises(StepError, match=f"{READING}: neither allowed nor refused: Connect timeout"):
        found.rights()


@pytest.fixture
def waiting(check_of, monkeypatch):
    """An Airflow whose run has such a state at each look; what was asked of what is around it."""
    around = Mock()
    client = around.client.return_value = MagicMock()
    client.__enter__.return_value = client
    client.trigger.return_value = "run"
    client.task_instances.return_value = []

    def made(*states):
        client.state.side_effect = states
        airflow = LocalAirflow(check_of())
        monkeypatch.setattr(airflow, "_role", around.role)
        airflow.__dict__.update(_airflow=None, _processes=around.processes)
        monkeypatch.setattr(airflow, "_usd", lambda _: 0.0)
        monkeypatch.setattr(local_airflow, "AirflowClient", around.client)
        monkeypatch.setattr(local_airflow, "end_jobs", around.end_jobs)
        monkeypatch.setattr(check_module.time, "sleep", lambda _: None)
        return airflow

    return made, around, client


def test_the_role_is_renewed_while_a_run_is_waited_for(waiting):
    made, around, client = waiting
    airflow = made("running", "running", "success")
    assert airflow._run("leak_guard", {}, 60) == Run("run", 0.0, "")
    assert around.role.renew.call_count == 3
    around.end_jobs.assert_not_called()
    client.change.assert_not_called()


@pytest.mark.parametrize("died", [None, httpx.ConnectError("it has died")])
def test_a_run_that_is_waited_for_no_longer_is_ended_with_its_jobs(waiting, died):
    made, around, client = waiting
    client.change.side_effect = died
    with pytest.raises(StepError, match="run run has not ended"):
        made("running")._run("leak_guard", {}, -1)
    around.end_jobs.assert_called_once()
    run = "/dags/leak_guard/dagRuns/run"
    client.change.assert_called_once_with("PATCH", run, {"state": "failed"})
