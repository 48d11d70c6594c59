"""Airflow's settings, and the client of its REST API, with its answers made here."""

import httpx
import pytest
from airflow.configuration import conf

from laptop.airflow import IMPORT_SECONDS, Airflow, AirflowClient
from laptop.demo import end_of_log


def test_a_busy_machines_airflow_is_asked_again_but_not_for_ever(tmp_path, monkeypatch):
    left = []  # what it does with each GET in turn

    def answer(transport, request):
        if request.url.path == "/auth/token":
            return httpx.Response(201, json={"access_token": "token"})
        if left.pop(0) == "too slow":
            raise httpx.ReadTimeout("timed out", request=request)
        return httpx.Response(200, json={"state": "running"})

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", answer)
    with AirflowClient(Airflow(tmp_path, 8080, tmp_path, schedules=False)) as client:
        left += ["too slow", "too slow", "at once"]
        assert client.state("dag", "run") == "running"
        left += ["too slow"] * 4
        with pytest.raises(httpx.ReadTimeout):
            client.state("dag", "run")


def test_a_busy_machine_has_time_to_import_a_dag_here_and_in_tests(tmp_path):
    airflow = Airflow(tmp_path, 8080, tmp_path, schedules=False)
    aws = {"AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": "http://127.0.0.1:5000"}
    set_here = airflow.environment(tmp_path, aws)
    assert set_here["AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT"] == "120"
    assert int(set_here["AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT"]) > IMPORT_SECONDS
    assert conf.getfloat("core", "dagbag_import_timeout") == IMPORT_SECONDS


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("one\n::group::Post Execute\n::endgroup::\ntwo", "one\ntwo"),
        (f"{'x' * 1990} first\nlast line", "last line"),
        ("y" * 3000, "y" * 2000),
    ],
)
def test_a_failed_task_is_told_in_whole_lines(log, told):
    assert end_of_log(log) == told
