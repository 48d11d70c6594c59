"""A call that comes twice, with the id that the SDKs give to all its attempts."""

import itertools

import pytest
from werkzeug.test import Client
from werkzeug.wrappers import Response

from local_cloud import repeats
from local_cloud.repeats import Repeats


class Counting:
    """Answers each call with its number."""

    def __init__(self, status=200):
        self.status = status
        self.calls = itertools.count(1)

    def __call__(self, environ, start_response):
        body = f"answer {next(self.calls)}"
        return Response(body, self.status, {"X-Of": body})(environ, start_response)


def send(client, call="1", service="iam"):
    credential = f"Credential=key/20260101/us-east-1/{service}/aws4_request"
    headers = {"Authorization": f"AWS4-HMAC-SHA256 {credential}"}
    if call is not None:
        headers["amz-sdk-invocation-id"] = call
    return client.post("/", data="Action=CreatePolicy", headers=headers)


def test_it_is_answered_as_before():
    client = Client(Repeats(Counting()))
    first = send(client)
    assert first.text == first.headers["X-Of"] == "answer 1"
    for _ in range(2):
        again = send(client)
        assert (again.text, again.headers) == (first.text, first.headers)
    assert send(client, call="2").text == "answer 2"


@pytest.mark.parametrize("call", [{"service": "batch"}, {"call": None}])
def test_batch_and_clients_without_ids_are_served_anew(call):
    client = Client(Repeats(Counting()))
    assert [send(client, **call).text for _ in range(2)] == ["answer 1", "answer 2"]


def test_what_was_refused_is_tried_again():
    client = Client(Repeats(Counting(status=500)))
    assert [send(client).text for _ in range(2)] == ["answer 1", "answer 2"]


def test_only_so_much_is_kept(monkeypatch):
    monkeypatch.setattr(repeats, "KEPT", 2)
    client = Client(Repeats(Counting()))
    answers = [send(client, call).text for call in ("1", "2", "3", "2", "1")]
    assert answers == ["answer 1", "answer 2", "answer 3", "answer 2", "answer 4"]
    monkeypatch.setattr(repeats, "LARGEST_BYTES", 7)
    client = Client(Repeats(Counting()))
    assert [send(client).text for _ in range(2)] == ["answer 1", "answer 2"]
