"""Which requests of a browser are served."""

import pytest
from werkzeug.test import Client
from werkzeug.wrappers import Response

from local_cloud.cross_origin import CrossOriginGuard


@pytest.fixture
def client():
    return Client(CrossOriginGuard(Response("served")))


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
@pytest.mark.parametrize("origin", ["https://example.org", "http://127.0.0.1:5000", "null"])
def test_requests_of_scripts_and_forms_are_refused(client, method, origin):
    answer = client.open("/moto-api/reset", method=method, headers={"Origin": origin})
    assert answer.status_code == 403
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert "served" not in answer.text


def test_links_and_programs_are_served(client):
    for method in ("GET", "POST"):
        assert client.open("/any", method=method).text == "served"
