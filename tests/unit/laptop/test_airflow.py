"""The client of Airflow's REST API, with its answers made here."""

import httpx
import pytest

from laptop.airflow import Airflow, AirflowClient


@pytest.fixture
def answers(monkeypatch):
    """What Airflow does with each GET in turn."""
    left = []

    def answer(transport, request):
        if request.url.path == "/auth/token":
            return httpx.Response(201, json={"access_token": "token"})
        if left.pop(0) == "too slow":
            raise httpx.ReadTimeout("timed out", request=request)
        return httpx.Response(200, json={"state": "running"})

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", answer)
    return left


@pytest.fixture
def client(tmp_path, answers):
    with AirflowClient(Airflow(tmp_path, 8080, tmp_path, schedules=False)) as client:
        yield client


def test_a_busy_machines_airflow_is_asked_again(client, answers):
    answers += ["too slow", "too slow", "at once"]

    assert client.state("dag", "run") == "running"


def test_an_airflow_that_never_answers_is_given_up(client, answers):
    answers += ["too slow"] * 4

    with pytest.raises(httpx.ReadTimeout):
        client.state("dag", "run")
