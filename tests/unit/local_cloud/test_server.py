"""Who may ask for the local cloud's own paths."""

from types import SimpleNamespace

import httpx
import pytest
from werkzeug.wrappers import Response

from local_cloud.faults.under_way import UNDER_WAY
from local_cloud.server import with_own_paths
from tests.clouds import SignedCalls

FAULT = {"kind": "missing_image", "image": "any"}


@pytest.fixture
def client():
    settings = SimpleNamespace(secret="right", credentials="FILE")
    app = with_own_paths(Response("served"), SimpleNamespace(), settings)

    def serve(environ, start_response):
        return app({**environ, "REQUEST_URI": environ["PATH_INFO"]}, start_response)

    with httpx.Client(
        transport=httpx.WSGITransport(serve), base_url="http://127.0.0.1:5000"
    ) as opened:
        yield opened
    UNDER_WAY.clear()


def test_faults_are_controlled_with_the_secret(client):
    client.auth = SignedCalls("right")
    assert client.post("/_faults", json=FAULT).status_code == 201
    assert list(UNDER_WAY) == ["1"]
    assert len(client.get("/_faults").json()["faults"]) == 1
    assert client.delete("/_faults/1").status_code == 204
    assert UNDER_WAY == {}


@pytest.mark.parametrize("auth", [None, SignedCalls("wrong")])
def test_nobody_else_sees_or_controls_faults(client, auth):
    client.post("/_faults", json=FAULT, auth=SignedCalls("right"))
    for method in ("GET", "POST", "DELETE"):
        answer = client.request(method, "/_faults", json=FAULT, auth=auth)
        assert answer.status_code == 403
        assert "FILE" in answer.text
    assert list(UNDER_WAY) == ["1"]


def test_everybody_may_ask_whether_it_is_ready(client):
    assert client.get("/local-cloud/ready").text == "ready\n"
    assert client.get("/local-cloud/ready/").status_code == 403
