"""The tasks of alerts from a run's changes to a subscriber, killed wherever they can be."""

import json
from datetime import timedelta
from types import SimpleNamespace

import pytest
from airflow.providers.amazon.aws.hooks.sns import SnsHook
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from airflow.sdk.execution_time.context import OutletEventAccessors
from botocore.exceptions import ClientError, ReadTimeoutError

from batchmark.aws.result_bucket import COLLECTED, PLAN, RunStore
from batchmark.changes.alerts.delivering import LONGEST_TRY
from batchmark.core.errors import AlertError
from batchmark.core.failures.endings import Ending
from batchmark.core.run import RunPlan
from batchmark.orchestration.assets import MOST_SERIES, REGRESSIONS
from batchmark.orchestration.tasks import alerts as alert_tasks
from batchmark.report.changes.alert_message import alert_board
from tests.builders.alerts import (
    NOW,
    change,
    message,
    moved,
    opened,
    point,
    series,
    some_series,
    store_changes,
)
from tests.builders.runs import build_job, build_run
from tests.stand_ins.alert_account import received
from tests.stand_ins.failing_calls import failing

EARLY = moved(20, 0.010, 0.012, some_series(2))
CHANGES = (change(point(of=series(dtype="float16"))), moved(26, 0.012, 0.010, some_series(2)))


pytestmark = pytest.mark.usefixtures("set_up", "published")


class Killed(BaseException):
    """The worker is gone: nothing catches it."""


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """What the tasks take for now."""
    found = SimpleNamespace(time=NOW)
    monkeypatch.setattr(alert_tasks, "datetime", SimpleNamespace(now=lambda _: found.time))
    return found


@pytest.fixture
def early(alerts):
    """An alert that an earlier run opened."""
    alerts.apply(message("run-1", opened=tuple(opened(EARLY))))


@pytest.fixture
def nowhere(set_up, monkeypatch):
    """A channel that can't be used."""
    set_up(apprise_conn_ids=["nowhere"])
    monkeypatch.setenv("AIRFLOW_CONN_NOWHERE", "apprise://")


@pytest.fixture
def run(early, published, store, alerts, context):
    """Runs the three tasks of run 30, of whose changes one is new and one closes an alert."""
    key = store_changes(store, *CHANGES)

    def tasks():
        context["outlet_events"] = OutletEventAccessors()
        ids = alert_tasks.open_alerts(context, key)
        alert_tasks.announce_regressions(context)
        alert_tasks.publish_alerts(context, [], "runs/a/report.html")
        return ids

    return tasks


def look_again(context):
    """As is done every hour."""
    alert_tasks.send_pending(context | {"run_id": "hourly"})


def outcome(alerts):
    return {alert.id: [one.state for one in alert.transitions] for alert in alerts.alerts()}


WANTED = {opened(EARLY)[0].id: ["open", "recovered"], opened(CHANGES[0])[0].id: ["open"]}


def test_a_run_opens_closes_and_tells_once(run, alerts, published, context, monkeypatch, capsys):
    counted = Deadly(monkeypatch, at=None, moment=None)
    ids = run()
    assert counted.count == len(OPERATIONS)
    assert outcome(alerts) == WANTED
    assert set(ids) == set(WANTED)
    (got,) = received(published)
    assert got["Subject"] == "Batchmark lab: 1 slower, 1 recovered"
    assert got["Message"] == alerts.message("run-30").text
    (event,) = context["outlet_events"][REGRESSIONS].extra["alerts"]
    assert event["id"] == ids[0]
    printed = capsys.readouterr().out
    assert "SLOWER" in printed
    assert "Message of run run-30:\n  sns: sent at 2026-11-20 09:30 UTC, try 1" in printed
    # All tasks cleared and run again.
    assert run() == ids
    assert outcome(alerts) == WANTED
    assert received(published) == []


OPERATIONS = ["message", "alert", "improvement", "recovery", "try begins", "SNS", "try ended"]


class Deadly:
    """Counts what is written and sent, and dies before or after one of these."""

    def __init__(self, monkeypatch, at, moment):
        self.count, self.at, self.moment = 0, at, moment
        for owner, name in ((RunStore, "put"), (SnsHook, "publish_to_target")):
            monkeypatch.setattr(owner, name, self.around(getattr(owner, name)))

    def around(self, operation):
        def counted(*arguments, **named):
            number, self.count = self.count, self.count + 1
            if (number, self.moment) == (self.at, "before"):
                raise Killed
            answer = operation(*arguments, **named)
            if (number, self.moment) == (self.at, "after"):
                raise Killed
            return answer

        return counted


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("at", range(len(OPERATIONS)), ids=OPERATIONS)
def test_a_killed_run_ends_as_any_other(run, alerts, published, monkeypatch, capsys, at, moment):
    Deadly(monkeypatch, at, moment)
    with pytest.raises(Killed):
        run()
    # Between the note that it begins and the note that it ended nobody knows how far it came.
    step = OPERATIONS[at], moment
    not_sent = {("try begins", "after"), ("SNS", "before")}
    unknown = step in not_sent | {("SNS", "after"), ("try ended", "before")}
    if unknown:
        with pytest.raises(AirflowFailException, match="run run-30, sns: the task that sent it"):
            run()
    run()
    assert outcome(alerts) == WANTED
    (delivery,) = alerts.message("run-30").deliveries
    assert delivery.state == ("unsure" if unknown else "sent")
    assert len(received(published)) == (0 if step in not_sent else 1)
    told = "sns: unsure at 2026-11-20 09:30 UTC, try 1: the task that" in capsys.readouterr().out
    assert told is unknown


@pytest.mark.parametrize("at", range(4), ids=OPERATIONS[:4])
def test_what_a_dead_run_decided_is_done_later(run, alerts, published, context, monkeypatch, at):
    Deadly(monkeypatch, at, "after")
    with pytest.raises(Killed):
        run()
    look_again(context)
    assert outcome(alerts) == WANTED
    assert len(received(published)) == 1


def test_nothing_new_is_not_sent_and_a_run_that_broke_off_fails(store, context, published, capsys):
    assert alert_tasks.open_alerts(context, store_changes(store)) == []
    alert_tasks.publish_alerts(context, [], "runs/a/report.html")
    makes_no_event(context)
    assert store.keys("alerts/") == []
    assert received(published) == []
    assert capsys.readouterr().out == (
        "No alert to open and none to change.\n"
        "Nothing to send: this run neither opened nor changed an alert.\n"
    )
    with pytest.raises(AirflowSkipException, match="nothing was planned"):
        alert_tasks.publish_alerts(context, None, None)
    store.write(PLAN, RunPlan(jobs=(build_job("g5.xlarge", []).planned,)).model_dump_json())
    with pytest.raises(AirflowFailException, match="incomplete; see open_alerts"):
        alert_tasks.publish_alerts(context, None, None)


def test_series_join_without_a_message_and_count_for_a_recovery(early, store, alerts, context):
    key = store_changes(store, moved(21, 0.010, 0.012, some_series(5)))
    for _ in range(2):
        assert alert_tasks.open_alerts(context, key) == []
        (alert,) = alerts.alerts()
        assert (alert.id, len(alert.series)) == (opened(EARLY)[0].id, 5)
        assert "5 rows together" in alert_board([alert], None, None).lines[0].title
    assert alerts.messages() == []
    of = some_series(5)
    key = store_changes(store, moved(21, 0.010, 0.012, of), moved(26, 0.012, 0.010, of))
    alert_tasks.open_alerts(context, key)
    assert "5 of 5 series back" in alerts.message("run-30").text
    assert alerts.alerts()[0].state == "recovered"
    makes_no_event(context)


def test_a_failed_send_is_made_up_for(run, alerts, published, context, monkeypatch):
    gone = ClientError({"Error": {"Code": "NotFound"}}, "Publish")
    with monkeypatch.context() as topic:
        topic.setattr(SnsHook, "publish_to_target", failing(gone))
        with pytest.raises(AlertError, match="not everything was sent: run run-30, sns: SNS did"):
            run()
        assert outcome(alerts) == WANTED
        with pytest.raises(AlertError, match="NotFound"):
            look_again(context)
    for _ in range(2):
        look_again(context)
    assert len(received(published)) == 1
    assert alerts.message("run-30").delivery("sns").attempts == 3


def test_no_answer_fails_the_task_once_after_what_took_nothing(
    run, nowhere, alerts, published, set_up, monkeypatch
):
    no_answer = ReadTimeoutError(endpoint_url="https://sns")
    monkeypatch.setattr(SnsHook, "publish_to_target", failing(no_answer))
    with pytest.raises(AlertError, match="run run-30, apprise:nowhere: connection 'nowhere'"):
        run()
    with pytest.raises(AlertError, match="connection 'nowhere'"):
        alert_tasks.check_settings()
    set_up()
    alert_tasks.check_settings()
    with pytest.raises(AirflowFailException, match="run run-30, sns: SNS did not respond"):
        run()
    run()
    assert alerts.message("run-30").delivery("sns").state == "unsure"


def test_a_message_that_an_earlier_release_held_is_sent(published, store, alerts, context):
    """Its quiet hours would have ended on the next day."""
    key = alerts.message_key("run-30")
    held = json.loads(message().model_dump_json()) | {"hold_until": "2026-11-21T07:30:00Z"}
    store.put(key, json.dumps(held))
    for _ in range(2):
        look_again(context)
    assert len(received(published)) == 1
    assert alerts.message("run-30").delivery("sns").state == "sent"
    assert b"hold_until" not in store.read(key)


def test_a_message_that_another_task_is_sending_is_left_to_it(published, alerts, context, clock):
    sending = message().deliveries[0].model_copy(update={"state": "sending", "at": NOW})
    alerts.create(message(deliveries=(sending,)))
    clock.time = NOW + LONGEST_TRY / 2
    look_again(context)
    assert alerts.message("run-30").delivery("sns").state == "sending"
    clock.time = NOW + LONGEST_TRY + timedelta(seconds=1)
    with pytest.raises(AirflowFailException, match="may not have arrived"):
        look_again(context)
    look_again(context)
    assert alerts.message("run-30").delivery("sns").state == "unsure"
    assert received(published) == []


def test_the_message_has_its_links_and_mentions_one_that_is_unsure(run, store, alerts, monkeypatch):
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/team")
    jobs = [build_job("g5.xlarge", [], repeat=repeat) for repeat in (1, 2)]
    store.write(COLLECTED, build_run(*jobs).model_dump_json())
    unsure = message().deliveries[0].model_copy(update={"state": "unsure"})
    alerts.create(message("run-7", deliveries=(unsure,)))
    run()
    sent = alerts.message("run-30")
    for told in (
        "log of g5.xlarge: https://logs.example/g5-xlarge-blog-1\n",
        "prefix=runs/run-30/report.html\n",
        "https://airflow.example/team/batchmark/alerts#",
        "The messages from these runs may not have arrived: run-7.",
    ):
        assert told in sent.text
    assert sent.mentions == ("run-7",)


def test_a_run_whose_jobs_failed_tells_so_once_and_opens_no_alert(published, store, context):
    ending = Ending.of("exit code 3", ["reading", "boom"])
    job = build_job("g5.xlarge", []).model_copy(update={"ending": ending})
    store.write(COLLECTED, build_run(job).model_dump_json())
    for _ in range(2):
        assert alert_tasks.open_alerts(context, store_changes(store)) == []
        alert_tasks.publish_alerts(context, [], "runs/a/report.html")
    (got,) = received(published)
    assert got["Subject"] == "Batchmark lab: 1 job on g5.xlarge failed: exit code 3."
    assert "\n  reading\n  boom\n" in got["Message"]
    assert got["MessageAttributes"]["kind"]["Value"] == '["failed"]'
    makes_no_event(context)


def makes_no_event(context):
    with pytest.raises(AirflowSkipException, match="opened no alert"):
        alert_tasks.announce_regressions(context)


def asked(context, alert_id, state, note="", by="ada"):
    return context | {
        "run_id": f"manual-{state}",
        "params": {"alert_id": alert_id, "state": state, "note": note},
        "dag_run": SimpleNamespace(triggering_user_name=by),
    }


@pytest.mark.parametrize(("by", "named"), [("ada", "ada"), (None, "somebody")])
def test_a_person_changes_an_alert_once(alerts, published, context, capsys, by, named):
    with pytest.raises(AirflowFailException, match="no alert 'x'"):
        alert_tasks.change_alert(asked(context, "x", "fixed"))
    alerts.apply(message())
    (alert,) = opened()
    for _ in range(2):
        wanted = asked(context, f" {alert.id} ", "acknowledged", "new driver", by)
        assert alert_tasks.change_alert(wanted) == alert.id
    ((_, last),) = [changed.transitions for changed in alerts.alerts()]
    assert (last.by, last.note, last.at) == (named, "new driver", NOW)
    assert "new driver" in capsys.readouterr().out


def test_the_event_names_each_new_alert_with_its_first_series(published, store, alerts, context):
    of = some_series(MOST_SERIES + 10)
    key = store_changes(store, moved(28, 0.010, 0.011, of))
    (alert_id,) = alert_tasks.open_alerts(context, key)
    context["outlet_events"] = OutletEventAccessors()
    alert_tasks.announce_regressions(context)
    told = json.loads(json.dumps(context["outlet_events"][REGRESSIONS].extra))
    assert (told["run_id"], told["message_key"]) == ("run-30", "alerts/messages/run-30.json")
    (alert,) = told["alerts"]
    assert len(alert.pop("series")) == MOST_SERIES
    assert alert == {
        "id": alert_id,
        "kind": "slower",
        "environment": True,
        "first_run_id": "run-28",
        "change": pytest.approx(0.1),
        "usd_per_month": 12.4,
        "series_count": MOST_SERIES + 10,
        "causes": [],
    }
