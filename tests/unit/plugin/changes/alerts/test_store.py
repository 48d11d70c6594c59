"""Alerts and messages in the bucket, where several may write at once."""

import pytest

from batchmark.changes.alerts.outbox import unsure_runs
from batchmark.changes.alerts.store import MESSAGES, MOST_TRIES
from batchmark.core.errors import AlertError
from batchmark.core.names import url_safe
from batchmark.history.store import HistoryStore
from tests.builders.alerts import (
    NOW,
    change,
    merged,
    message,
    moved,
    opened,
    point,
    series,
    some_series,
)
from tests.builders.leaks import config
from tests.stand_ins.bucket import MemoryBucket
from tests.stand_ins.moto_account import moto_account, moto_client


@pytest.fixture(params=["in memory", "moto"])
def bucket(request):
    """The bucket of most tests, and moto's, so that they answer alike."""
    if request.param == "in memory":
        yield MemoryBucket(config().bucket, config().region)
        return
    with moto_account():
        s3 = moto_client("s3", region_name=config().region)
        s3.create_bucket(
            Bucket=config().bucket,
            CreateBucketConfiguration={"LocationConstraint": config().region},
        )
        yield s3


def acknowledged(alert):
    return alert.become("acknowledged", at=NOW, by="ada", run_id="manual-1")


def test_an_object_is_created_once_and_replaced_only_as_it_was_read(store):
    assert store.swap("alerts/a.json", "first", None) is True
    assert store.swap("alerts/a.json", "second", None) is False
    found, version = store.read_version("alerts/a.json")
    assert found == store.read("alerts/a.json") == b"first"
    assert store.swap("alerts/a.json", "second", version) is True
    assert store.swap("alerts/a.json", "third", version) is False
    assert store.read("alerts/a.json") == b"second"
    # What is not there is not replaced and not read.
    assert store.read_if_there("alerts/b.json") is None
    assert store.read_version("alerts/b.json") is None
    assert store.swap("alerts/b.json", "text", '"0"') is False


def test_objects_are_listed_in_order_and_folders_by_name(store, bucket):
    for key in ("history/suite=sam/b", "history/suite=blog/b", "history/suite=blog/a", "history/c"):
        store.put(key, "text")
    history = HistoryStore(bucket, store.bucket)
    assert history.suites() == ["blog", "sam"]
    assert store.keys("history/suite=blog/") == ["history/suite=blog/a", "history/suite=blog/b"]
    assert store.keys("alerts/") == []
    store.remove("history/suite=sam/b")
    assert history.suites() == ["blog"]


def test_other_errors_of_a_conditional_write_are_not_swallowed(store):
    store.bucket = "another"
    with pytest.raises(Exception, match="NoSuchBucket"):
        store.swap("alerts/a.json", "text", None)


def test_what_a_message_decided_is_done_once(alerts):
    early = opened(moved(20, 0.010, 0.012, some_series(2)))
    alerts.apply(message("run-1", opened=tuple(early)))
    found = merged([change(), moved(26, 0.012, 0.010, some_series(2))], early)
    decided = message(
        opened=found.opened, recoveries=found.recoveries, improvements=found.improvements
    )
    for _ in range(2):
        alerts.apply(decided)
        assert {alert.id: alert.state for alert in alerts.alerts()} == {
            early[0].id: "recovered",
            found.opened[0].id: "open",
        }
        assert alerts.improvements() == list(found.improvements)
    (recovered,) = (alert for alert in alerts.alerts() if alert.state == "recovered")
    assert len(recovered.transitions) == 2
    # Nor is what a person said meanwhile undone.
    alerts.change_alert(found.opened[0].id, acknowledged)
    alerts.apply(decided)
    assert {alert.state for alert in alerts.alerts()} == {"recovered", "acknowledged"}


def test_alerts_and_messages_are_listed_the_oldest_first_without_what_lies_beside(alerts):
    late = [one.model_copy() for one in merged([change(point(of=series(dtype="int8")))]).opened]
    alerts.apply(message(opened=(*late, *opened())))
    alerts.create(message())
    assert [alert.id for alert in alerts.alerts()] == [opened()[0].id, late[0].id]
    for run, day in (("a-late", 19), ("b-early", 10)):
        alerts.create(message(run, created_at=NOW.replace(day=day)))
    assert [one.run_id for one in alerts.messages()] == ["b-early", "a-late", "run-30"]


def test_a_message_is_created_once_whatever_else_lies_there_and_the_first_one_stays(alerts, store):
    first = alerts.create(message(text="first"))
    assert alerts.create(message(text="second")) == first
    assert alerts.message("run-30") == first
    assert alerts.message("run-31") is None
    ours = message("scheduled__2026-11-20T03:00:00+00:00")
    store.put(f"{MESSAGES}{url_safe(ours.run_id)}.json", "{}")
    assert alerts.create(ours) == alerts.message(ours.run_id) == ours


def test_a_message_that_release_0_1_wrote_stays_where_it_is(alerts, store):
    ours, other = (
        message(f"scheduled__2026-11-20T03:00:00{zone}") for zone in ("+00:00", "-00:00")
    )
    key = f"{MESSAGES}{url_safe(ours.run_id)}.json"
    store.put(key, ours.model_dump_json())
    assert alerts.create(ours) == alerts.message(ours.run_id) == ours
    assert alerts.message(other.run_id) is None
    alerts.change_message(ours.run_id, lambda one: one.model_copy(update={"text": "changed"}))
    alerts.create(other)
    assert alerts.message(ours.run_id).text == "changed"
    assert sorted(alerts.message_key(one.run_id) for one in (ours, other)) == sorted(
        store.keys(MESSAGES)
    )


def test_two_who_change_an_alert_at_once_both_do(alerts, store):
    decided = message()
    alerts.apply(decided)
    (alert,) = decided.opened
    looks = []

    def while_another_writes(one):
        if not looks:
            alerts.change_alert(one.id, acknowledged)
        looks.append(one.state)
        return one.become("fixed", at=NOW, by="bob", run_id="manual-2")

    changed = alerts.change_alert(alert.id, while_another_writes)
    assert looks == ["open", "acknowledged"]
    assert [one.state for one in changed.transitions] == ["open", "acknowledged", "fixed"]
    assert alerts.alerts() == [changed]


def test_who_is_always_too_late_gives_up(alerts, monkeypatch, store):
    alerts.apply(message())
    monkeypatch.setattr(store, "swap", lambda *_: False)
    with pytest.raises(AlertError, match=f"changed by other processes {MOST_TRIES} times"):
        alerts.change_alert(opened()[0].id, acknowledged)


def test_what_is_no_alert_is_refused_by_its_name_or_with_those_that_are_open(alerts, store):
    with pytest.raises(AlertError, match="no alert 'nothing'; open or acknowledged alerts: none"):
        alerts.change_alert("nothing", acknowledged)
    alerts.apply(message())
    (alert,) = opened()
    for _ in ("open", "acknowledged"):
        with pytest.raises(AlertError, match=f"no alert 'nothing'; open or .* alerts: {alert.id}"):
            alerts.change_alert("nothing", acknowledged)
        alerts.change_alert(alert.id, acknowledged)
    store.put("alerts/0123456789.json", '{"id": "0123456789"}')
    with pytest.raises(AlertError, match=r"alerts/0123456789\.json can't be read: change: Field"):
        alerts.alerts()


def test_runs_are_unsure_until_a_later_message_mentions_them():
    def told(run, state, **fields):
        one = message(run, **fields)
        return one.with_delivery(one.delivery("sns").model_copy(update={"state": state}))

    first, second = told("run-1", "unsure"), told("run-2", "sent")
    assert unsure_runs([first, second]) == ("run-1",)
    third = told("run-3", "unsure", mentions=("run-1",))
    assert unsure_runs([first, second, third]) == ("run-3",)
