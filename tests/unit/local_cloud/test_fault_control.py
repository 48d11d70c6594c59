"""Which calls a fault strikes, what it answers them, and who controls it."""

import json
import random
from contextlib import nullcontext
from types import SimpleNamespace

import botocore.session
import httpx
import pytest
from botocore.parsers import create_parser
from werkzeug.test import Client
from werkzeug.wrappers import Response

from local_cloud.fault_control import Faults
from local_cloud.faults import errors
from local_cloud.faults.kinds import FAULT, FileSystemDeletionRefused, UnstartedNode
from local_cloud.faults.under_way import UNDER_WAY, strike
from local_cloud.file_systems import folders, models
from local_cloud.gaps.service_quotas import NAMES, quota
from local_cloud.server import with_own_paths
from tests.clouds import SignedCalls
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
    protocol = errors.protocol_of(service, content_type)
    response = errors.response(protocol, errors.throttled(service))
    headers = {name.lower(): value for name, value in response.headers.items()}
    answer = {"status_code": response.status_code, "headers": headers, "body": response.get_data()}
    model = botocore.session.Session().get_service_model(service)
    shape = model.operation_model(model.operation_names[0]).output_shape
    parsed = create_parser(protocol).parse(answer, shape)
    assert response.status_code == status
    assert parsed["Error"]["Code"] == code
    assert parsed["Error"]["Message"]


def test_a_fault_strikes_so_often_and_so_many(begin):
    active = begin("file_system_deletion_refused", file_system="fs-1*", times=2)
    assert strike(UnstartedNode) is None

    def struck(file_system_id):
        return strike(FileSystemDeletionRefused, lambda fault: fault.covers(file_system_id))

    assert struck("fs-2") is None
    assert [struck("fs-10") for _ in range(3)] == [active.fault, active.fault, None]
    assert active.shown()["strikes"] == 2


@pytest.mark.parametrize(
    ("fault", "covered", "others"),
    [
        (
            {"kind": "unstarted_node", "job_name": "job-*", "node": 2},
            ("job-1", 2),
            [("job-1", 1), ("other", 2)],
        ),
        (
            {"kind": "spot_interruption", "job_name": "job-*", "compute_environment": "spot"},
            ("job-1", "spot"),
            [("job-1", "on-demand"), ("other", "spot")],
        ),
        ({"kind": "spot_interruption"}, ("any", "any"), []),
        (
            {"kind": "invalid_environment", "compute_environment": "spot*"},
            ("spot-1",),
            [("other",)],
        ),
    ],
)
def test_what_is_covered(fault, covered, others):
    covers = FAULT.validate_python(fault).covers
    assert covers(*covered)
    assert not any(covers(*other) for other in others)


def test_quotas_are_covered_by_code(begin):
    begin("vcpu_quota", code="L-DB*")
    found = {code: quota(code, "us-east-1", "123456789012")["Value"] for code in NAMES}
    assert [code for code, value in found.items() if value == 0] == ["L-DB2E81BA"]


MISSING_IMAGE = {"kind": "missing_image", "image": "any"}


@pytest.fixture
def signed_client():
    settings = SimpleNamespace(secret="right", credentials="FILE")
    app = with_own_paths(Response("served"), SimpleNamespace(), settings)

    def serve(environ, start_response):
        return app({**environ, "REQUEST_URI": environ["PATH_INFO"]}, start_response)

    with httpx.Client(
        transport=httpx.WSGITransport(serve), base_url="http://127.0.0.1:5000"
    ) as opened:
        yield opened
    UNDER_WAY.clear()


def test_faults_are_seen_and_controlled_with_the_secret_alone(signed_client):
    right = SignedCalls("right")
    assert signed_client.post("/_faults", json=MISSING_IMAGE, auth=right).status_code == 201
    for auth in (None, SignedCalls("wrong")):
        for method in ("GET", "POST", "DELETE"):
            answer = signed_client.request(method, "/_faults", json=MISSING_IMAGE, auth=auth)
            assert answer.status_code == 403
            assert "FILE" in answer.text
    assert list(UNDER_WAY) == ["1"]
    assert len(signed_client.get("/_faults", auth=right).json()["faults"]) == 1
    assert signed_client.delete("/_faults/1", auth=right).status_code == 204
    assert UNDER_WAY == {}


def test_everybody_may_ask_whether_it_is_ready(signed_client):
    assert signed_client.get("/local-cloud/ready").text == "ready\n"
    assert signed_client.get("/local-cloud/ready/").status_code == 403
