"""The tasks of leak_guard and environment_check with moto: pages, alerts and failures."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException

from batchmark.aws.result_bucket import ENVIRONMENT_HTML, ENVIRONMENT_JSON, RunStore
from batchmark.changes.alerts.delivering import UnsureError
from batchmark.checks.leak_records import ENDABLE, GuardReport, LeakAges, Resource
from batchmark.core.errors import AlertError, ConfigError
from batchmark.core.names import slug
from batchmark.orchestration import channels
from batchmark.orchestration.tasks import environment, leaks
from tests.builders.leaks import NOW, config
from tests.stand_ins.alert_account import received
from tests.stand_ins.failing_calls import failing
from tests.stand_ins.planning import planning_context

RUN_ID = "scheduled__2026-11-21T11:20:00+00:00"
KEY = f"guard/2026-11-21/{slug(RUN_ID)}"


@pytest.fixture
def account(monkeypatch, published):
    """A store in an account that has only the bucket and the topic."""
    for tasks in (environment, leaks):
        monkeypatch.setattr(tasks, "load_config", lambda: published)
    return RunStore.of(published, RUN_ID)


def context(**params):
    dag_run = SimpleNamespace(run_after=datetime(2026, 11, 21, 11, 20, tzinfo=UTC))
    return planning_context(RUN_ID, params, dag_id="environment_check") | {"dag_run": dag_run}


def report(*resources, unread=()):
    return GuardReport(
        installation="lab", region="eu-west-1", looked_at=NOW, resources=resources, unread=unread
    )


def store_report(account, *resources, unread=()):
    return account.put(f"{KEY}.json", report(*resources, unread=unread).model_dump_json())


def test_without_what_the_multi_node_stack_publishes_all_else_is_looked_at(account, monkeypatch):
    def look(asked, *_, nodes, **__):
        assert (nodes, asked.targets) == (None, config().targets)
        return report(unread=("a: b",))

    stale = ConfigError("batchmark_multi_node is from another release")
    monkeypatch.setattr(leaks, "load_cluster_if_any", lambda: None)
    monkeypatch.setattr(leaks, "load_multi_node_if_any", failing(stale))
    monkeypatch.setattr("batchmark.checks.leaks.find_leaks", look)
    params = {name: param.resolve() for name, param in leaks.leak_params().items()}
    found = GuardReport.model_validate_json(account.read(leaks.look_for_leaks(context(**params))))
    why = "multi-node jobs: batchmark_multi_node is from another release"
    assert found.unread == ("a: b", why)
    params = {name: param.resolve() for name, param in leaks.leak_params().items()}
    assert params.pop("end_leaks") == ["jobs", "run_file_systems"]
    assert params == LeakAges().model_dump()
    assert leaks.leak_params()["end_leaks"].schema["examples"] == list(ENDABLE)


def found(verdict, **changes):
    fields = {"id": "j-[1]", "what": "lab-g5-xlarge-blog-1, RUNNING", "since": NOW}
    return Resource(kind="job", verdict=verdict, reason="Its run r is over.", **fields | changes)


def test_a_leak_is_published_sends_an_alert_and_fails(account, published):
    key = store_report(account, found("leaked", ended=True, action="Ended."), found("in use"))
    with pytest.raises(AirflowFailException) as failed:
        leaks.report_leaks(context(), key)
    text = (
        "1 leak(s) of lab:\n"
        "job j-[1] (lab-g5-xlarge-blog-1, RUNNING), since 2026-11-21 12:00 UTC: Its run r is over. "
        "Ended."
    )
    assert str(failed.value) == text
    (told,) = received(published)
    assert told["Subject"] == "Batchmark lab: there are running resources that no run needs"
    assert told["Message"].startswith(f"{text}\n\nhttps://")
    page = account.read(f"{KEY}.html").decode()
    assert "1 leaked, 1 in use" in page
    assert "j-[1]" in page


def test_without_a_topic_or_s3_a_leak_is_in_the_log(account, monkeypatch, capsys):
    monkeypatch.setattr(leaks, "load_config", lambda: config(topic_arn=None))
    with pytest.raises(AirflowFailException, match="No alert was sent: no topic is"):
        leaks.report_leaks(context(), store_report(account, found("leaked")))
    assert "1 leak(s) of lab" in capsys.readouterr().out
    key = store_report(account, found("leaked"))
    monkeypatch.setattr(RunStore, "put", failing(ConnectionError("no S3")))
    with pytest.raises(ConnectionError):
        leaks.report_leaks(context(), key)
    assert "job j-[1] (lab-g5-xlarge-blog-1, RUNNING), since" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("problem", "raised", "told"),
    [
        (AlertError("SNS did not take it"), AlertError, "could not be sent: SNS did not take it"),
        (UnsureError("no answer"), AirflowFailException, "may not have arrived: no answer"),
    ],
)
def test_where_sns_refuses_each_leak_is_told(account, monkeypatch, capsys, problem, raised, told):
    monkeypatch.setattr(channels, "publish", failing(problem))
    key = store_report(account, found("leaked"), found("leaked", id="j-2"))
    with pytest.raises(raised) as failed:
        leaks.report_leaks(context(), key)
    said = capsys.readouterr().out
    for one in ("job j-[1] (lab-g5-xlarge-blog-1, RUNNING), since", "job j-2 (lab-g5-xlarge-blog"):
        assert one in said
        assert one in str(failed.value)
    assert str(failed.value).endswith(told)
    assert "2 leaked" in account.read(f"{KEY}.html").decode()


def test_without_a_leak_no_alert_is_sent(account, published, capsys):
    key = store_report(account, found("in use"))
    assert leaks.report_leaks(context(), key) == f"{KEY}.html"
    said = capsys.readouterr().out
    assert "1 in use." in said
    assert "Report: https://" in said
    assert "leak(s)" not in said
    key = store_report(account, found("in use"), unread=("file systems: later",))
    with pytest.raises(AirflowFailException, match="not everything could be checked: file systems"):
        leaks.report_leaks(context(), key)
    assert "Not checked: file systems: later" in capsys.readouterr().out
    assert received(published) == []


def test_an_environment_that_lacks_everything_fails_with_every_line(account):
    with pytest.raises(AirflowFailException) as failed:
        environment.check_environment(context(targets=["g5.xlarge"]))
    lines = str(failed.value).splitlines()
    result = json.loads(account.read(account.prefix + ENVIRONMENT_JSON))
    failures = [check for check in result["checks"] if check["status"] == "fail"]
    assert lines[0] == f"{len(failures)} check(s) failed, so nothing is submitted:"
    assert len(lines) == len(failures) + 1
    assert any(line.startswith("job queue of g5.xlarge: ") for line in lines)
    page = account.read(account.prefix + ENVIRONMENT_HTML).decode()
    assert "lab in eu-west-1" in page
    assert {check["target"] for check in result["checks"]} == {"all", "g5.xlarge"}


@pytest.mark.parametrize(
    ("shared_too", "asked", "checked"),
    [
        (False, [], {"all", "c5.2xlarge"}),
        (True, [], {"all", "c5.2xlarge", "g5.xlarge"}),
        (False, ["g5.xlarge"], {"all", "g5.xlarge"}),
    ],
)
def test_shared_targets_are_checked_on_demand(account, monkeypatch, shared_too, asked, checked):
    targets = dict(config().targets)
    shared = {"sharing": "mps", "max_replicas": 2}
    targets["g5.xlarge"] = targets["g5.xlarge"].model_copy(update=shared)
    monkeypatch.setattr(environment, "load_config", lambda: config().with_targets(targets))
    with pytest.raises(AirflowFailException):
        environment.check_environment(context(targets=asked), shared_too=shared_too)
    result = json.loads(account.read(account.prefix + ENVIRONMENT_JSON))
    seen = {name for check in result["checks"] for name in check["target"].split(", ")}
    assert seen == checked


def test_an_unknown_target_and_a_missing_variable_are_refused_before_aws_is_asked(monkeypatch):
    monkeypatch.setattr(environment, "load_config", config)
    asked, told = context(targets=["g5.48xlarge"]), {}
    asked["ti"].xcom_push = lambda key, value: told.update({key: value})
    with pytest.raises(AirflowFailException, match=r"unknown target 'g5\.48xlarge'; Terraform cre"):
        environment.check_environment(asked)
    assert told["failure"].startswith("unknown target 'g5.48xlarge'")  # for the run's page
    monkeypatch.setattr(environment, "load_config", failing(ConfigError("not found")))
    with pytest.raises(AirflowFailException, match="not found"):
        environment.check_environment(context(targets=[]))
