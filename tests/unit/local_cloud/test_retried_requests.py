"""Requests that come again, with the invocation id of their first attempt."""

import itertools

import pytest
from werkzeug.test import Client
from werkzeug.wrappers import Response

from local_cloud import retried_requests
from local_cloud.retried_requests import RetriedRequests


class Counting:
    """Answers each call with its number."""

    def __init__(self, status=200):
        self.status = status
        self.calls = itertools.count(1)

    def __call__(self, environ, start_response):
        body = f"answer {next(self.calls)}"
        return Response(body, self.status, {"X-Of": body})(environ, start_response)


def send(client, call="1", path="/"):
    credential = "Credential=key/20260101/us-east-1/iam/aws4_request"
    headers = {"Authorization": f"AWS4-HMAC-SHA256 {credential}"}
    if call is not None:
        headers["amz-sdk-invocation-id"] = call
    return client.post(path, data="Action=CreatePolicy", headers=headers)


def test_a_retry_gets_the_first_answer():
    client = Client(RetriedRequests(Counting()))
    first = send(client)
    assert first.text == first.headers["X-Of"] == "answer 1"
    for _ in range(2):
        again = send(client)
        assert (again.text, again.headers) == (first.text, first.headers)
    assert send(client, call="2").text == "answer 2"
    queues = [send(client, "3", "/v1/createjobqueue").text for _ in range(2)]
    assert queues == ["answer 3"] * 2


@pytest.mark.parametrize(
    ("call", "status"), [({"path": "/v1/submitjob"}, 200), ({"call": None}, 200), ({}, 500)]
)
def test_submissions_calls_without_invocation_ids_and_errors_are_served_again(call, status):
    client = Client(RetriedRequests(Counting(status)))
    assert [send(client, **call).text for _ in range(2)] == ["answer 1", "answer 2"]


def test_only_the_latest_and_small_answers_are_kept(monkeypatch):
    monkeypatch.setattr(retried_requests, "KEPT_ANSWERS", 2)
    client = Client(RetriedRequests(Counting()))
    answers = [send(client, call).text for call in ("1", "2", "3", "2", "1")]
    assert answers == ["answer 1", "answer 2", "answer 3", "answer 2", "answer 4"]
    monkeypatch.setattr(retried_requests, "LARGEST_BYTES", 7)
    client = Client(RetriedRequests(Counting()))
    assert [send(client).text for _ in range(2)] == ["answer 1", "answer 2"]
