"""A host's metadata: version 2, with nothing in it but Spot's notice."""

from datetime import UTC, datetime

import pytest
from werkzeug.test import Client
from werkzeug.wrappers import Response

from local_cloud.host_metadata import HostMetadata

TASK_ID, SAFE_TASK_ID = "0123456789abcdef" * 2, "fedcba9876543210" * 2
TTL, TOKEN = "X-aws-ec2-metadata-token-ttl-seconds", "X-aws-ec2-metadata-token"
ACTION = "latest/meta-data/spot/instance-action"


@pytest.fixture
def client():
    ends = {TASK_ID: datetime(2026, 11, 24, 5, 2, 0, 999, tzinfo=UTC)}
    return Client(HostMetadata(Response("served"), ends.get))


def get(client, path, task_id=TASK_ID):
    token = client.put(f"/_host/{task_id}/latest/api/token", headers={TTL: "60"}).text
    return client.get(f"/_host/{task_id}/{path}", headers={TOKEN: token})


def test_a_notice_names_action_and_time(client):
    assert get(client, ACTION).json == {"action": "terminate", "time": "2026-11-24T05:02:00Z"}


@pytest.mark.parametrize(
    ("path", "task_id"),
    [
        (ACTION, SAFE_TASK_ID),
        ("latest/meta-data/events/recommendations/rebalance", TASK_ID),
        ("latest/meta-data/instance-type", TASK_ID),
        ("latest/meta-data/iam/security-credentials/", TASK_ID),
    ],
)
def test_all_else_is_not_found(client, path, task_id):
    assert get(client, path, task_id).status_code == 404


@pytest.mark.parametrize("headers", [{}, {TOKEN: "made-up"}])
def test_no_answer_without_a_token(client, headers):
    assert client.get(f"/_host/{TASK_ID}/{ACTION}", headers=headers).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 400),
        ({TTL: "0"}, 400),
        ({TTL: "21601"}, 400),
        ({TTL: "soon"}, 400),
        ({TTL: "60", "X-Forwarded-For": "192.0.2.1"}, 403),
    ],
)
def test_a_token_needs_a_lifetime_and_no_proxy(client, headers, status):
    path = f"/_host/{TASK_ID}/latest/api/token"
    assert client.put(path, headers=headers).status_code == status


def test_an_old_token_is_refused(client, monkeypatch):
    token = client.put(f"/_host/{TASK_ID}/latest/api/token", headers={TTL: "60"}).text
    monkeypatch.setattr("local_cloud.host_metadata.time.monotonic", lambda: float("inf"))
    assert client.get(f"/_host/{TASK_ID}/{ACTION}", headers={TOKEN: token}).status_code == 401


def test_nothing_can_be_written(client):
    assert client.post(f"/_host/{TASK_ID}/{ACTION}").status_code == 405


def test_other_paths_are_not_touched(client):
    assert client.get("/bucket/key").text == "served"
