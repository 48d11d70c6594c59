"""Metadata of a host, with Spot's notice alone, and of a task, from an engine's description."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from werkzeug.test import Client
from werkzeug.wrappers import Response

from local_cloud.batch.running.docker_runtime import PULL_STARTED, PULL_STOPPED
from local_cloud.metadata import HostMetadata, TaskMetadata

TASK_ID, SAFE_TASK_ID = "0123456789abcdef" * 2, "fedcba9876543210" * 2
TTL, TOKEN = "X-aws-ec2-metadata-token-ttl-seconds", "X-aws-ec2-metadata-token"
ACTION = "latest/meta-data/spot/instance-action"


@pytest.fixture
def client():
    ends = {TASK_ID: datetime(2026, 11, 24, 5, 2, 0, 999, tzinfo=UTC)}
    running = {TASK_ID, SAFE_TASK_ID}
    return Client(HostMetadata(Response("served"), ends.get, running.__contains__))


def token(client, task_id):
    return client.put(f"/_host/{task_id}/latest/api/token", headers={TTL: "60"}).text


def get(client, path, task_id=TASK_ID):
    return client.get(f"/_host/{task_id}/{path}", headers={TOKEN: token(client, task_id)})


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


def test_only_who_has_a_fresh_token_of_the_task_reads_and_nobody_writes(client, monkeypatch):
    path, own = f"/_host/{TASK_ID}/{ACTION}", {TOKEN: token(client, TASK_ID)}
    for headers in ({}, {TOKEN: "made-up"}, {TOKEN: token(client, SAFE_TASK_ID)}):
        assert client.get(path, headers=headers).status_code == 401
    notice = {"action": "terminate", "time": "2026-11-24T05:02:00Z"}
    assert client.get(path, headers=own).json == notice
    assert client.post(path, headers=own).status_code == 405
    monkeypatch.setattr("local_cloud.metadata.time.monotonic", lambda: float("inf"))
    assert client.get(path, headers=own).status_code == 401


def test_who_is_no_task_that_runs_gets_no_token(client):
    nobody = "0" * 32
    assert client.put(f"/_host/{nobody}/latest/api/token", headers={TTL: "60"}).status_code == 404
    assert get(client, ACTION, nobody).status_code == 404


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


IMAGE_ID = "sha256:" + "c5" * 32
INSPECTED = {
    "Id": "f" * 64,
    "Name": "/ecs-definition-1-default",
    "Image": IMAGE_ID,
    "Created": "2026-11-22T11:18:53.065449416Z",
    "Config": {"Image": "repository:tag", "Labels": {"local-cloud.job": "job"}},
    "HostConfig": {"CpuShares": 2048, "Memory": 64 * 2**20},
    "State": {"Running": True, "StartedAt": "2026-11-22T11:18:53.137168881Z"},
}


def ask(path, inspected=INSPECTED, address=None):
    runtime = SimpleNamespace(inspect={TASK_ID: inspected}.get)
    app = TaskMetadata(Response("served"), runtime, {TASK_ID: address}.get)
    return Client(app).get(path)


def test_a_containers_metadata_names_its_image():
    described = ask(f"/v4/{TASK_ID}").json
    assert (described["Image"], described["ImageID"]) == ("repository:tag", IMAGE_ID)
    assert described["Limits"] == {"CPU": 2048, "Memory": 64}
    assert described["StartedAt"] == INSPECTED["State"]["StartedAt"]
    assert described["DockerName"] == "ecs-definition-1-default"


def test_a_task_has_times_of_a_pull_only_if_there_was_one():
    task = ask(f"/v4/{TASK_ID}/task").json
    assert task["Limits"] == {"CPU": 2, "Memory": 64}
    assert [each["ImageID"] for each in task["Containers"]] == [IMAGE_ID]
    assert not {"PullStartedAt", "PullStoppedAt"} & set(task)
    labels = {PULL_STARTED: "2026-11-22T11:00:00+00:00", PULL_STOPPED: "2026-11-22T11:00:09+00:00"}
    pulled = {**INSPECTED, "Config": {**INSPECTED["Config"], "Labels": labels}}
    task = ask(f"/v4/{TASK_ID}/task", pulled).json
    assert task["PullStartedAt"] == "2026-11-22T11:00:00+00:00"
    assert task["PullStoppedAt"] == "2026-11-22T11:00:09+00:00"


def networks(container):
    return [network["IPv4Addresses"] for network in container["Networks"]]


def test_nodes_and_containers_find_their_addresses_but_for_their_machines():
    of_node = {"address": "127.1.2.3"}
    assert networks(ask(f"/v4/{TASK_ID}", **of_node).json) == [["127.1.2.3"]]
    process = ask(f"/v4/{TASK_ID}", inspected=None, **of_node).json
    assert networks(process) == [["127.1.2.3"]]
    assert "ImageID" not in process
    (container,) = ask(f"/v4/{TASK_ID}/task", inspected=None, **of_node).json["Containers"]
    assert networks(container) == [["127.1.2.3"]]
    joined = {"Networks": {"jobs": {"IPAddress": "172.18.0.3"}}}
    on_network = {**INSPECTED, "NetworkSettings": joined}
    assert networks(ask(f"/v4/{TASK_ID}", on_network).json) == [["172.18.0.3"]]
    on_host = {**INSPECTED, "NetworkSettings": {"Networks": {"host": {"IPAddress": ""}}}}
    assert "Networks" not in ask(f"/v4/{TASK_ID}", on_host).json


@pytest.mark.parametrize("path", ["/", "/v4", "/v4/short", f"/v4/{TASK_ID}/stats", "/v1/submitjob"])
def test_an_unknown_task_is_not_found_and_other_paths_are_passed_on(client, path):
    assert ask(f"/v4/{'0' * 32}").status_code == 404
    assert ask(path).text == client.get(path).text == "served"
