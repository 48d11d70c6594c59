"""The channels themselves: SNS with a queue subscribed, and Apprise to a server on this machine."""

import json
from contextlib import contextmanager
from threading import Event

import pytest
from airflow.providers.amazon.aws.hooks.sns import SnsHook
from airflow.providers.apprise.hooks.apprise import AppriseHook
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
)

from batchmark.changes.alerts.delivering import UnsureError
from batchmark.changes.alerts.settings import AlertSettings
from batchmark.changes.alerts.sns_limits import TEXT_BYTES
from batchmark.core.errors import AlertError
from batchmark.orchestration import channels
from tests.builders.alerts import message
from tests.builders.installations import configured
from tests.stand_ins.alert_account import received
from tests.stand_ins.failing_calls import failing
from tests.stand_ins.http import serving
from tests.waiting import PATIENCE_SECONDS

# Apprise looks through all its services when it is first asked for one.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")

ATTRIBUTES = {"kind": ("slower", "recovered"), "state": ("open",)}


@contextmanager
def server(*statuses):
    """A port of this machine that answers so, one after the other; it and what it got.

    An event as a status makes it wait for that.
    """
    got, answers = [], list(statuses)

    def answer(asked):
        got.append(asked.rfile.read(int(asked.headers["Content-Length"])).decode())
        status = answers.pop(0) if answers else 200
        if isinstance(status, Event):
            status.wait(PATIENCE_SECONDS)
            status = 200
        return status, b""

    with serving(answer) as listening:
        yield listening.server_port, got


@pytest.fixture
def connect(monkeypatch):
    """Makes an Airflow connection of type Apprise with that extra."""

    def make(conn_id, extra):
        text = json.dumps({"conn_type": "apprise", "extra": extra})
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", text)

    return make


def to(*ports):
    return {"config": [{"path": f"json://127.0.0.1:{port}/", "tag": "alerts"} for port in ports]}


def test_a_subscriber_receives_the_message_once_as_far_as_sns_takes_it(published, monkeypatch):
    receipt = channels.publish(published, "Batchmark lab: 1 slower", "12 µs -> 13 µs", ATTRIBUTES)
    (got,) = received(published)
    assert got["MessageId"] == receipt
    assert got["Subject"] == "Batchmark lab: 1 slower"
    assert got["Message"] == "12 µs -> 13 µs"
    kind = got["MessageAttributes"]["kind"]
    assert kind["Type"] == "String.Array", "by its members a subscriber can filter"
    assert json.loads(kind["Value"]) == ["slower", "recovered"]
    assert received(published) == []
    channels.publish(published, "two\nlines " + "x" * 200, "µ" * 300_000, {})
    (got,) = received(published)
    assert got["Subject"].startswith("two?lines xxx")
    assert 0.99 * TEXT_BYTES < len(json.dumps(got["Message"])) <= TEXT_BYTES
    # A publish that is repeated after a lost answer would arrive twice.
    with server(503, 200) as (port, got):
        monkeypatch.setenv("AWS_ENDPOINT_URL_SNS", f"http://127.0.0.1:{port}")
        with pytest.raises(AlertError, match="SNS did not accept the message"):
            channels.publish(published, "subject", "text", {})
    assert len(got) == 1


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (ReadTimeoutError(endpoint_url="https://sns"), UnsureError),
        (ConnectTimeoutError(endpoint_url="https://sns"), AlertError),
        (EndpointConnectionError(endpoint_url="https://sns"), AlertError),
        (ClientError({"Error": {"Code": "Throttling"}}, "Publish"), AlertError),
    ],
)
def test_no_answer_is_not_a_refusal(published, monkeypatch, error, raised):
    monkeypatch.setattr(SnsHook, "publish_to_target", failing(error))
    with pytest.raises(AlertError) as failed:
        channels.publish(published, "subject", "text", {})
    assert type(failed.value) is raised


def test_apprise_reaches_all_services_of_a_connection_once_something_is_sent(published, connect):
    with server() as (port, got):
        connect("chat", to(port, port))
        channels.check_channels(AlertSettings(apprise_conn_ids=("chat",)))
        assert got == []
        receipt = channels.send(published, "apprise:chat", message(text="12 µs"))
    assert receipt == "2 service(s)"
    told = [(one["title"], one["message"]) for one in map(json.loads, got)]
    assert told == [("Batchmark lab: 1 slower", "12 µs")] * 2


def test_a_service_that_refuses_did_not_take_it_and_a_silent_one_may_have(connect, monkeypatch):
    with server(500) as (port, got):
        connect("chat", to(port))
        with pytest.raises(AlertError, match=r"chat: 0 of 1 service.* accepted .*500") as failed:
            channels.notify("chat", "subject", "text")
    assert type(failed.value) is AlertError
    assert len(got) == 1
    with server() as (port, _), server(500) as (broken, _):
        connect("chat", to(port, broken))
        with pytest.raises(UnsureError, match="chat: 1 of 2 service"):
            channels.notify("chat", "subject", "text")
    monkeypatch.setattr(channels, "LONGEST_SEND_SECONDS", 0.2)
    answer = Event()
    with server(answer) as (port, _):
        connect("chat", to(port))
        with pytest.raises(UnsureError, match="chat: 0 of 1 service"):
            channels.notify("chat", "subject", "text")
        answer.set()


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        (None, "isn't defined"),
        ({}, "KeyError"),
        ({"config": "slack"}, "can't be used"),
        ({"config": {"url": "json://127.0.0.1"}}, "KeyError"),
        ({"config": {"path": "nonsense://127.0.0.1"}}, "names no service that Apprise supports"),
    ],
)
def test_a_connection_that_can_not_be_used_is_found_before_anything_is_sent(connect, extra, reason):
    if extra is not None:
        connect("chat", extra)
    with pytest.raises(AlertError, match=reason) as refused:
        channels.check_channels(AlertSettings(apprise_conn_ids=("chat",)))
    assert str(refused.value).startswith("connection 'chat' ")
    assert 'its extra field to {"config": {"path": "<Apprise URL>"}}' in str(refused.value)


TOKEN = "TIiajkdnlazkcOXrIdevi7FQ"
WRONG = [
    f"slack://T1JJ3T3L2/A1BRTD4JD/{TOKEN}-x",
    f"slak://T1JJ3T3L2/{TOKEN}",
    f"json://me:{TOKEN}@127.0.0.1:port/",
    f"{TOKEN} is no URL",
    f"slak://T1JJ3T3L2/{TOKEN[:9]}%21{TOKEN[9:]}",
]


@pytest.mark.parametrize("url", WRONG)
def test_a_wrong_url_is_told_without_its_token(connect, caplog, url):
    caplog.set_level("DEBUG")
    connect("chat", {"config": {"path": url, "tag": "alerts"}})
    with pytest.raises(AlertError, match="names no service that Apprise supports") as refused:
        channels.apprise_services("chat")
    assert "URL" in caplog.text, "Apprise says what is wrong"
    for part in (TOKEN, TOKEN[:9], TOKEN[9:], "T1JJ3T3L2"):
        assert part not in f"{caplog.text} {refused.value}"


def test_an_extra_of_another_shape_is_told_without_its_token(connect, monkeypatch):
    quoting = failing(ValueError(f"what about {TOKEN}?"))
    monkeypatch.setattr(AppriseHook, "set_config_from_conn", quoting)
    connect("chat", {"config": [f"slack://{TOKEN}"]})
    with pytest.raises(AlertError, match=r"can't be used \(ValueError\('what about \*\*\*\?'\)\)"):
        channels.apprise_services("chat")


def test_a_service_that_fails_is_told_without_its_token(connect, caplog):
    caplog.set_level("DEBUG")
    caplog.set_level("DEBUG", "urllib3")  # which Kubernetes' client makes quiet
    with server(404) as (port, _):
        path = f"json://me:{TOKEN}@127.0.0.1:{port}/services/{TOKEN}"
        connect("chat", {"config": {"path": path}})
        with pytest.raises(AlertError, match=r"accepted the message: .*404") as failed:
            channels.notify("chat", "subject", "text")
    assert "POST /" in caplog.text, "urllib3 logs what it asks"
    assert TOKEN not in f"{caplog.text} {failed.value}"


def test_each_connection_is_a_channel_beside_the_topic_if_there_is_one():
    settings = AlertSettings(apprise_conn_ids=("chat", "pager", "chat"))
    assert channels.channels_of(configured(), settings) == ("sns", "apprise:chat", "apprise:pager")
    config = configured(topic_arn=None)
    assert channels.channels_of(config, settings) == ("apprise:chat", "apprise:pager")
    with pytest.raises(AlertError, match="no alert topic is configured"):
        channels.publish(config, "subject", "text", {})


def test_a_backend_of_connections_that_fails_now_may_pass_and_nothing_is_sent(monkeypatch):
    down = failing(ConnectionError("the backend is down"))
    monkeypatch.setattr(AppriseHook, "get_connection", down)
    with pytest.raises(ConnectionError):
        channels.check_channels(AlertSettings(apprise_conn_ids=("chat",)))
    with pytest.raises(AlertError, match=r"'chat' can't be read: .*the backend is down") as failed:
        channels.notify("chat", "subject", "text")
    assert type(failed.value) is AlertError
