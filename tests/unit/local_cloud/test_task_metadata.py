"""The metadata endpoint, from an engine's description of a container."""

import pytest
from werkzeug.test import Client
from werkzeug.wrappers import Response

from local_cloud.batch.running.docker_runtime import PULL_STARTED, PULL_STOPPED
from local_cloud.task_metadata import TaskMetadata

TASK_ID = "0123456789abcdef" * 2
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


class Runtime:
    def __init__(self, inspected):
        self.inspected = inspected

    def inspect(self, task_id):
        return self.inspected if task_id == TASK_ID else None


def get(path, inspected=INSPECTED, address=None):
    app = TaskMetadata(Response("served"), Runtime(inspected), {TASK_ID: address}.get)
    return Client(app).get(path)


def test_a_containers_metadata_names_its_image():
    described = get(f"/v4/{TASK_ID}").json
    assert (described["Image"], described["ImageID"]) == ("repository:tag", IMAGE_ID)
    assert described["Limits"] == {"CPU": 2048, "Memory": 64}
    assert described["StartedAt"] == INSPECTED["State"]["StartedAt"]
    assert described["DockerName"] == "ecs-definition-1-default"


def test_a_task_has_times_of_a_pull_only_if_there_was_one():
    task = get(f"/v4/{TASK_ID}/task").json
    assert task["Limits"] == {"CPU": 2, "Memory": 64}
    assert [each["ImageID"] for each in task["Containers"]] == [IMAGE_ID]
    assert not {"PullStartedAt", "PullStoppedAt"} & set(task)
    labels = {PULL_STARTED: "2026-11-22T11:00:00+00:00", PULL_STOPPED: "2026-11-22T11:00:09+00:00"}
    pulled = {**INSPECTED, "Config": {**INSPECTED["Config"], "Labels": labels}}
    task = get(f"/v4/{TASK_ID}/task", pulled).json
    assert task["PullStartedAt"] == "2026-11-22T11:00:00+00:00"
    assert task["PullStoppedAt"] == "2026-11-22T11:00:09+00:00"


def networks(container):
    return [network["IPv4Addresses"] for network in container["Networks"]]


def test_a_node_finds_its_own_address():
    assert networks(get(f"/v4/{TASK_ID}", address="127.1.2.3").json) == [["127.1.2.3"]]
    process = get(f"/v4/{TASK_ID}", inspected=None, address="127.1.2.3").json
    assert networks(process) == [["127.1.2.3"]]
    assert "ImageID" not in process
    (container,) = get(f"/v4/{TASK_ID}/task", None, "127.1.2.3").json["Containers"]
    assert networks(container) == [["127.1.2.3"]]


def test_a_container_finds_its_address_on_its_network_and_none_on_its_machines():
    joined = {"Networks": {"jobs": {"IPAddress": "172.18.0.3"}}}
    on_network = {**INSPECTED, "NetworkSettings": joined}
    assert networks(get(f"/v4/{TASK_ID}", on_network).json) == [["172.18.0.3"]]
    on_host = {**INSPECTED, "NetworkSettings": {"Networks": {"host": {"IPAddress": ""}}}}
    assert "Networks" not in get(f"/v4/{TASK_ID}", on_host).json


def test_an_unknown_task_is_not_found():
    assert get(f"/v4/{'0' * 32}").status_code == 404


@pytest.mark.parametrize("path", ["/", "/v4", "/v4/short", f"/v4/{TASK_ID}/stats", "/v1/submitjob"])
def test_other_paths_are_passed_on(path):
    assert get(path).data == b"served"
