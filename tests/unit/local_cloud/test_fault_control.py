"""Which calls a fault strikes, and the control of faults."""

import json
import random
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from werkzeug.test import Client
from werkzeug.wrappers import Response

from local_cloud.fault_control import Faults
from local_cloud.faults import errors
from local_cloud.faults.under_way import UNDER_WAY
from local_cloud.file_systems import folders, models
from tests.stand_ins.failing_calls import failing
from tests.stand_ins.local_batch import signed


@pytest.fixture
def client(monkeypatch):
    monkeypatch.setattr("local_cloud.fault_control.find_job", lambda _: None)
    faults = Faults(Response("served"), SimpleNamespace(lock=nullcontext()))
    yield Client(lambda environ, start: faults({"REMOTE_ADDR": "127.0.0.1"} | environ, start))
    UNDER_WAY.clear()


def begin(client, **fault):
    answered = client.post("/_faults", json=fault)
    assert answered.status_code == 201, answered.text
    return answered.json["id"]


def describe_jobs(client):
    return client.post("/v1/describejobs", json={}, headers=signed())


def put_object(client, key="raw/a.json"):
    return client.put(f"/bucket/{key}", data=b"x", headers=signed("s3"))


def get_object(client, key="raw/a.json"):
    return client.get(f"/bucket/{key}", headers=signed("s3"))


def test_a_share_of_calls_is_throttled_depending_on_the_seed(client):
    def outcomes(seed):
        fault = begin(client, kind="throttle", share=0.3, services=["batch"], seed=seed)
        statuses = [describe_jobs(client).status_code for _ in range(100)]
        client.delete(f"/_faults/{fault}")
        return statuses

    def expected(seed):
        numbers = random.Random(seed)
        return [429 if numbers.random() < 0.3 else 200 for _ in range(100)]

    assert outcomes(1) == expected(1)
    assert outcomes(2) == expected(2) != expected(1)


def test_services_operations_and_resources_narrow_a_fault(client):
    throttle = begin(client, kind="throttle", share=1, services=["batch"])
    assert describe_jobs(client).status_code == 429
    assert get_object(client).data == b"served"
    client.delete(f"/_faults/{throttle}")
    begin(client, kind="outage", seconds=60, operations=["SubmitJob"])
    assert describe_jobs(client).status_code == 200
    assert client.post("/v1/submitjob", json={}, headers=signed()).status_code == 503
    begin(client, kind="outage", seconds=60, resources=["arn:aws:s3:::bucket/raw/*"])
    assert get_object(client).status_code == 503
    assert get_object(client, "runs/a.json").status_code == 200


@pytest.mark.parametrize("code", ["SlowDown", "AccessDenied"])
def test_refused_writes_do_not_affect_reads(client, code):
    begin(client, kind="refused_writes", code=code)
    refused = put_object(client)
    assert refused.status_code == errors.REFUSED_WRITES[code].status
    assert f"<Code>{code}</Code>" in refused.text
    assert get_object(client).status_code == 200
    assert describe_jobs(client).status_code == 200


def test_expired_credentials_have_the_error_of_each_service(client):
    begin(client, kind="expired_credentials")
    refused = get_object(client)
    assert refused.status_code == 400
    assert "<Code>ExpiredToken</Code>" in refused.text
    refused = describe_jobs(client)
    assert refused.status_code == 403
    assert refused.headers["x-amzn-ErrorType"] == "ExpiredTokenException"


def test_a_fault_ends_by_itself(client, monkeypatch):
    began = []
    monkeypatch.setattr("local_cloud.fault_control.later", lambda *call: began.append(call))
    begin(client, kind="outage", seconds=30)
    assert describe_jobs(client).status_code == 503
    ((seconds, ring, *arguments),) = began
    assert seconds == 30
    ring(*arguments)
    assert describe_jobs(client).status_code == 200
    assert client.get("/_faults").json == {"faults": []}


def test_a_late_answer_is_delayed(client, monkeypatch):
    slept = []
    monkeypatch.setattr("local_cloud.fault_control.time", SimpleNamespace(sleep=slept.append))
    begin(client, kind="late_answer", operations=["DescribeJobs"], delay_seconds=0.5)
    assert describe_jobs(client).data == get_object(client).data == b"served"
    assert slept == [0.5, 0.0]


def test_a_dropped_connection_has_no_answer(client):
    begin(client, kind="outage", seconds=60, how="drop")
    closed = []
    with pytest.raises(ConnectionResetError):
        client.get(
            "/", environ_overrides={"werkzeug.socket": SimpleNamespace(shutdown=closed.append)}
        )
    assert len(closed) == 1


def test_faults_under_way_are_shown_with_their_strikes_until_they_are_deleted(client):
    first = begin(client, kind="throttle", share=1, services=["batch"])
    begin(client, kind="missing_image", image="repository:tag")
    describe_jobs(client)
    describe_jobs(client)
    throttle, image = client.get("/_faults").json["faults"]
    assert (throttle["id"], throttle["kind"], throttle["strikes"]) == (first, "throttle", 2)
    assert throttle["remaining_seconds"] is None
    assert (image["kind"], image["image"]) == ("missing_image", "repository:tag")
    assert client.delete("/_faults").status_code == 204
    assert UNDER_WAY == {}


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"kind": "earthquake"}, "does not match any of the expected tags"),
        ({"kind": "throttle", "share": 1.5}, "throttle.share: Input should be less than or equal"),
        ({"kind": "throttle"}, "throttle.share: Field required"),
        ({"kind": "outage"}, "outage.seconds: Field required"),
        ({"kind": "outage", "seconds": 1, "service": "s3"}, "outage.service: Extra inputs"),
        (
            {"kind": "invalid_environment", "compute_environment": ""},
            "invalid_environment.compute_environment: String should have at least 1 character",
        ),
    ],
)
def test_an_invalid_fault_is_refused(client, fault, message):
    answered = client.post("/_faults", data=json.dumps(fault))
    assert answered.status_code in (400, 404)
    assert message in answered.json["message"]
    assert client.get("/_faults").json == {"faults": []}


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::1", ""])
def test_only_this_machine_controls_faults(client, address):
    refused = client.delete("/_faults", environ_overrides={"REMOTE_ADDR": address})
    assert refused.status_code == 403
    assert "machine that runs the local cloud" in refused.json["message"]


def test_environments_are_looked_at_when_a_fault_of_them_begins_and_ends():
    looks = []
    scheduler = SimpleNamespace(lock=nullcontext(), environments_changed=lambda: looks.append(1))
    client = Client(Faults(Response("served"), scheduler))
    of_this_machine = {"REMOTE_ADDR": "127.0.0.1"}
    fault = {"kind": "no_capacity"}
    client.post("/_faults", json=fault, environ_overrides=of_this_machine)
    assert looks == [1]
    client.delete("/_faults", environ_overrides=of_this_machine)
    assert looks == [1, 1]


def test_file_systems_are_full_as_long_as_the_fault_if_any_may_be_mounted(client, monkeypatch):
    refuse = failing(folders.NotPermittedError("mount needs root"))
    monkeypatch.setattr(folders, "check_permitted", refuse)
    answered = client.post("/_faults", json={"kind": "file_system_full"})
    said = answered.json["message"]
    assert (answered.status_code, said) == (409, "file_system_full: mount needs root")
    assert client.get("/_faults").json == {"faults": []}
    done = []
    monkeypatch.setattr(folders, "check_permitted", lambda: None)
    for name in ("fill_all", "make_room"):
        monkeypatch.setattr(models, name, lambda name=name: done.append(name))
    fault = begin(client, kind="file_system_full")
    assert done == ["fill_all"]
    client.delete(f"/_faults/{fault}")
    assert done == ["fill_all", "make_room"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/jobs/none/nodes/0/kill", 404),
        ("POST", "/jobs/none/nodes/main/kill", 405),
        ("GET", "/jobs/none", 404),
        ("DELETE", "/1", 404),
        ("PUT", "", 405),
    ],
)
def test_what_is_not_there_is_refused(client, method, path, status):
    assert client.open(f"/_faults{path}", method=method).status_code == status
