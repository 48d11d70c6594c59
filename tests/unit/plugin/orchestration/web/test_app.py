"""Every page inside Airflow: who may see it, and that text stays text."""

import re
from urllib.parse import urlencode

import pytest
from botocore.exceptions import EndpointConnectionError
from fastapi.routing import APIRoute

from batchmark.orchestration.web import access
from batchmark.orchestration.web.airflow_runs import AirflowRun
from batchmark.orchestration.web.app import HEADERS
from tests.builders.history import two_targets
from tests.builders.libraries import NOW
from tests.builders.runs import build_run
from tests.stand_ins.failing_calls import failing
from tests.stand_ins.visitors import sides

EVIL = "<script>alert(1)</script>\"'&"
PLACES = {"run_id": "any", "key": "raw/any", "dag_id": "any", "ending": "csv", "repeat": "1"}


def paths(app):
    """The method and an address of every route."""
    return [
        (method, re.sub(r"\{(\w+)(:path)?\}", lambda name: PLACES.get(name[1], "any"), route.path))
        for route in app.routes
        if isinstance(route, APIRoute)
        for method in route.methods
    ]


@pytest.mark.parametrize(("visitor", "status"), [(None, 401), ("stranger", 403)])
def test_no_route_gives_anything_without_a_session_or_the_right(pages, shelf, visitor, status):
    shelf.measured()
    assert len(paths(pages.app)) >= 15
    shelf.s3.calls.clear()
    with pages.seen_by(visitor) as client:
        for method, path in paths(pages.app):
            answer = client.request(method, path, data={"state": "fixed"})
            assert answer.status_code == status, (method, path)
            assert "scheduled__" not in answer.text
    assert shelf.s3.calls == []


def test_every_route_is_one_that_asks(pages):
    """A route that is added elsewhere, such as FastAPI's own pages, would not."""
    for route in pages.app.routes:
        assert isinstance(route, APIRoute)
        assert access.reader in [found.call for found in route.dependant.dependencies]


@pytest.mark.parametrize("visitor", [None, "of yesterday"])
def test_who_is_not_logged_in_is_told_what_to_do(pages, visitor):
    with pages.seen_by(visitor) as client:
        answer = client.get("/runs")
    assert answer.status_code == 401
    assert "Log in to Airflow first" in answer.text
    assert 'href="/auth/login"' in answer.text


@pytest.mark.parametrize("path", ["/runs", "/runs/none", "/files/raw/none", "/compare.csv", "/no"])
def test_every_answer_forbids_scripts_and_foreign_frames(pages, path):
    answer = pages.client.get(path)
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    assert "default-src 'none'" in HEADERS["Content-Security-Policy"]


def test_an_empty_history_says_how_to_begin(pages):
    assert "No run yet. Trigger the DAG GPU-CPU benchmark" in pages.text("/runs")
    assert "The history is empty." in pages.text("/trends")
    assert "No run of yours yet" in pages.text("/compare")
    assert "No alert yet" in pages.text("/alerts")
    assert "nothing was spent" in pages.text("/costs")


def test_hostile_names_stay_text(pages, shelf):
    run = build_run(*two_targets().jobs).model_copy(update={"run_id": EVIL})
    shelf.report(run)
    pages.runs = [AirflowRun("gpu_cpu_benchmark", EVIL, NOW, EVIL)]
    for path in (
        "/runs",
        f"/runs/{EVIL.replace('/', '%2F')}",
        f"/runs?{urlencode({'suite': EVIL})}",
        f"/trends?{urlencode({'suite': EVIL})}",
        f"/compare?{sides(EVIL, EVIL, (EVIL, EVIL))}",
    ):
        assert "<script" not in pages.client.get(path).text, path


def test_a_bucket_that_does_not_answer_is_told(pages, shelf):
    shelf.s3.on_call = failing(EndpointConnectionError(endpoint_url="http://127.0.0.1:1"))
    assert "This can't be shown now" in pages.text("/runs", 503).replace("&#39;", "'")


def test_programs_get_their_errors_as_json(pages):
    answer = pages.client.get("/files/none", headers={"accept": "application/json"})
    assert answer.json() == {"detail": "There is no such object, or it is not one that is shown."}
