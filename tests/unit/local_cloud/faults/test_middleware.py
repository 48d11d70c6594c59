"""Which calls a fault strikes, and the errors it answers with, as botocore reads them."""

import json
from types import SimpleNamespace

import botocore.session
import pytest
from botocore.parsers import create_parser
from pydantic import ValidationError
from werkzeug.test import Client

from local_cloud.faults.answers import REFUSED_WRITES, answer, throttled
from local_cloud.faults.kinds import FAULT
from local_cloud.faults.middleware import Faults, protocol_of

SIGNED = "AWS4-HMAC-SHA256 Credential=test/20261121/us-east-1/{}/aws4_request, Signature=0"


def served(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"served"]


@pytest.fixture
def scheduler():
    return SimpleNamespace(missing_images=set())


@pytest.fixture
def client(scheduler, monkeypatch):
    monkeypatch.setattr("local_cloud.faults.middleware.batch_backends", {})
    faults = Faults(served, scheduler)
    return Client(lambda environ, start: faults({"REMOTE_ADDR": "127.0.0.1"} | environ, start))


def begin(client, **fault):
    answered = client.post("/_faults", json=fault)
    assert answered.status_code == 201, answered.text
    return answered.json["id"]


def describe_jobs(client):
    return client.post(
        "/v1/describejobs", json={}, headers={"Authorization": SIGNED.format("batch")}
    )


def put_object(client, key="raw/a.json"):
    return client.put(f"/bucket/{key}", data=b"x", headers={"Authorization": SIGNED.format("s3")})


def get_object(client, key="raw/a.json"):
    return client.get(f"/bucket/{key}", headers={"Authorization": SIGNED.format("s3")})


@pytest.mark.parametrize(
    ("service", "content_type", "code", "status"),
    [
        ("batch", "application/json", "TooManyRequestsException", 429),
        ("logs", "application/x-amz-json-1.1", "ThrottlingException", 400),
        ("s3", "application/octet-stream", "SlowDown", 503),
        ("sns", "application/x-www-form-urlencoded", "Throttling", 400),
        ("ec2", "application/x-www-form-urlencoded", "RequestLimitExceeded", 503),
        ("cloudwatch", "application/cbor", "Throttling", 400),
    ],
)
def test_botocore_reads_the_throttling_of_each_protocol(service, content_type, code, status):
    protocol = protocol_of(service, content_type)
    response = answer(protocol, throttled(service))
    headers = {name.lower(): value for name, value in response.headers.items()}
    told = {"status_code": response.status_code, "headers": headers, "body": response.get_data()}
    model = botocore.session.Session().get_service_model(service)
    shape = model.operation_model(model.operation_names[0]).output_shape
    parsed = create_parser(protocol).parse(told, shape)
    assert response.status_code == status
    assert parsed["Error"]["Code"] == code
    assert parsed["Error"]["Message"]


def test_a_share_of_calls_is_throttled_and_the_seed_decides_which(client):
    def outcomes(seed):
        fault = begin(client, kind="throttle", share=0.3, services=["batch"], seed=seed)
        statuses = [describe_jobs(client).status_code for _ in range(1000)]
        client.delete(f"/_faults/{fault}")
        return statuses

    first = outcomes(1)
    assert 250 <= first.count(429) <= 350
    assert first.count(429) + first.count(200) == 1000
    assert outcomes(1) == first
    assert outcomes(2) != first


def test_other_services_are_left_alone(client):
    begin(client, kind="throttle", share=1, services=["batch"])
    assert describe_jobs(client).status_code == 429
    assert get_object(client).data == b"served"


def test_operations_and_resources_narrow_a_fault(client):
    begin(client, kind="outage", seconds=60, operations=["SubmitJob"])
    assert describe_jobs(client).status_code == 200
    submit = client.post(
        "/v1/submitjob", json={}, headers={"Authorization": SIGNED.format("batch")}
    )
    assert submit.status_code == 503
    begin(client, kind="outage", seconds=60, resources=["arn:aws:s3:::bucket/raw/*"])
    assert get_object(client).status_code == 503
    assert get_object(client, "runs/a.json").status_code == 200


@pytest.mark.parametrize("code", ["SlowDown", "AccessDenied"])
def test_refused_writes_leave_reading_alone(client, code):
    begin(client, kind="refused_writes", code=code)
    refused = put_object(client)
    assert refused.status_code == REFUSED_WRITES[code].status
    assert f"<Code>{code}</Code>" in refused.text
    assert get_object(client).status_code == 200
    assert describe_jobs(client).status_code == 200


def test_a_fault_ends_by_itself(client, monkeypatch):
    began = []
    monkeypatch.setattr(
        "local_cloud.faults.middleware.threading.Timer",
        lambda seconds, ring, arguments: (
            began.append((seconds, ring, arguments))
            or SimpleNamespace(start=lambda: None, cancel=lambda: None)
        ),
    )
    begin(client, kind="outage", seconds=30)
    assert describe_jobs(client).status_code == 503
    ((seconds, ring, arguments),) = began
    assert seconds == 30
    ring(*arguments)
    assert describe_jobs(client).status_code == 200
    assert client.get("/_faults").json == {"faults": []}


def test_a_dropped_connection_has_no_answer(client):
    begin(client, kind="outage", seconds=60, how="drop")
    closed = []
    with pytest.raises(ConnectionResetError):
        client.get(
            "/", environ_overrides={"werkzeug.socket": SimpleNamespace(shutdown=closed.append)}
        )
    assert len(closed) == 1


def test_what_is_under_way_is_shown_with_its_strikes(client):
    first = begin(client, kind="throttle", share=1, services=["batch"])
    begin(client, kind="missing_image", image="repository:tag")
    describe_jobs(client)
    describe_jobs(client)
    throttle, image = client.get("/_faults").json["faults"]
    assert (throttle["id"], throttle["kind"], throttle["strikes"]) == (first, "throttle", 2)
    assert throttle["remaining_seconds"] is None
    assert (image["kind"], image["image"]) == ("missing_image", "repository:tag")


def test_deleting_undoes(client, scheduler):
    begin(client, kind="missing_image", image="repository:tag")
    assert scheduler.missing_images == {"repository:tag"}
    assert client.delete("/_faults").status_code == 204
    assert scheduler.missing_images == set()
    assert client.delete("/_faults/1").status_code == 404


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"kind": "earthquake"}, "does not match any of the expected tags"),
        ({"kind": "throttle", "share": 1.5}, "throttle.share: Input should be less than or equal"),
        ({"kind": "throttle"}, "throttle.share: Field required"),
        ({"kind": "outage"}, "outage.seconds: Field required"),
        ({"kind": "outage", "seconds": 1, "service": "s3"}, "outage.service: Extra inputs"),
        ({"kind": "invalid_environment", "compute_environment": ""}, "no compute environment ''"),
    ],
)
def test_what_can_not_be_is_refused(client, fault, message):
    answered = client.post("/_faults", data=json.dumps(fault))
    assert answered.status_code in (400, 404)
    assert message in answered.json["message"]
    assert client.get("/_faults").json == {"faults": []}


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::1", ""])
def test_only_this_machine_may_switch_faults(client, address):
    refused = client.delete("/_faults", environ_overrides={"REMOTE_ADDR": address})
    assert refused.status_code == 403
    assert "own machine" in refused.json["message"]


def test_a_kind_never_changes():
    fault = FAULT.validate_python({"kind": "throttle", "share": 0.5})
    with pytest.raises(ValidationError):
        fault.share = 1.0


def test_unknown_ways_are_refused(client):
    assert client.put("/_faults").status_code == 405
    assert client.get("/_faults/jobs/none").status_code == 404
