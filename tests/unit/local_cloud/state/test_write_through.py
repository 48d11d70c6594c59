"""Which calls change what, and that changes are on disk before the answer."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from werkzeug.test import Client

from local_cloud.state.pickling import live
from local_cloud.state.store import ALL, JOB_SERVICES
from local_cloud.state.write_through import SELF_CONTAINED, WriteThrough, is_reading, reach_of
from tests.stand_ins.local_batch import signed

ACCOUNT, REGION = "111122223333", "us-east-1"


@pytest.mark.parametrize(
    ("service", "operation", "method", "reads"),
    [
        ("batch", "DescribeJobs", "POST", True),
        ("batch", "SubmitJob", "POST", False),
        ("ecr", "BatchGetImage", "POST", True),
        ("ecr", "BatchDeleteImage", "POST", False),
        ("sqs", "ReceiveMessage", "POST", False),
        ("s3", "GetObject", "GET", True),
        ("s3", None, "HEAD", True),
        ("s3", "PutObject", "PUT", False),
        (None, None, "GET", True),
        (None, None, "POST", False),
        ("new", None, "GET", False),
    ],
)
def test_which_calls_only_read(service, operation, method, reads):
    assert is_reading(service, operation, method) is reads


@pytest.mark.parametrize(
    ("service", "operation", "reach"),
    [
        ("s3", "PutObject", {"s3"}),
        ("batch", "SubmitJob", JOB_SERVICES),
        ("batch", "CreateComputeEnvironment", ALL),
        ("events", "PutEvents", JOB_SERVICES),
        ("fsx", "CreateFileSystem", ALL),
        (None, None, ALL),
    ],
)
def test_which_services_a_call_may_change(service, operation, reach):
    assert reach_of(service, operation) == reach


def test_all_listed_services_are_motos():
    for service in SELF_CONTAINED | JOB_SERVICES:
        key = (service, ACCOUNT, "aws" if service in ("iam", "s3", "budgets") else REGION)
        assert live(key).account_id == ACCOUNT


def test_a_change_is_committed_before_its_answer():
    seen = []

    def served(environ, start_response):
        seen.append("served")
        start_response("200 OK", [])
        yield b"answer"

    @contextmanager
    def changing(services):
        yield
        seen.append(("commit", services))

    def transport(environ, start_response):
        store = SimpleNamespace(changing=changing)
        answer = WriteThrough(served, store)(environ, start_response)
        seen.append("answered")
        return answer

    client = Client(transport)
    client.put("/bucket/key", data=b"x", headers=signed("s3"))
    assert seen == ["served", ("commit", {"s3"}), "answered"]
    seen.clear()
    client.get("/bucket/key", headers=signed("s3"))
    assert seen == ["answered", "served"]
