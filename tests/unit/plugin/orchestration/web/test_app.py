"""Every page inside Airflow: who may see it, and that text stays text."""

import re
from collections.abc import MutableMapping
from urllib.parse import quote, urlencode

import pytest
from botocore.exceptions import EndpointConnectionError
from fastapi.dependencies.utils import get_flat_dependant
from fastapi.routing import APIRoute

from batchmark.core.kinds import KINDS
from batchmark.orchestration.web import access
from batchmark.orchestration.web.airflow_runs import AirflowRun
from batchmark.orchestration.web.app import HEADERS
from tests.builders.history import two_targets
from tests.builders.libraries import NOW
from tests.builders.runs import build_run
from tests.stand_ins.failing_calls import failing
from tests.stand_ins.visitors import RIGHTS, sides

EVIL = "<script>alert(1)</script>\"'&"
PLACES = {"key": "raw/any", "ending": "csv"}  # of an address; others are "any"


def routes(app):
    return [route for route in app.routes if isinstance(route, APIRoute)]


def read_routes(app):
    return [route for route in routes(app) if "GET" in route.methods]


def places(route):
    """The names of what stands in its address."""
    return re.findall(r"\{(\w+)", route.path)


def queries(route):
    """The names of what a route takes behind the question mark."""
    return [field.alias for field in get_flat_dependant(route.dependant).query_params]


def address(route, query=(), **given):
    given = PLACES | given
    path = re.sub(r"\{(\w+)(:path)?\}", lambda name: quote(given.get(name[1], "any")), route.path)
    return f"{path}?{urlencode(query)}"


def paths(app):
    """The method and an address of every route."""
    return [(method, address(route)) for route in routes(app) for method in route.methods]


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
    for visitor in (None, "of yesterday"):
        with pages.seen_by(visitor):
            text = pages.text("/runs", 401)
        assert "Log in to Airflow first" in text
        assert 'href="/auth/login"' in text


@pytest.mark.parametrize("path", ["/runs", "/runs/none", "/files/raw/none", "/compare.csv", "/no"])
def test_every_answer_forbids_scripts_and_foreign_frames(pages, path):
    answer = pages.client.get(path)
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    assert "default-src 'none'" in HEADERS["Content-Security-Policy"]


SHARP = ("\0", "2026-13-45", "sha256:abcdef", "none", "..", "x" * 5000)
ODD_WORDS = (
    *(*SHARP, "", " ", "a\nb", "\u202e", "\N{NO-BREAK SPACE}", "[]", "{}", "sha256:", "a,b"),
    *("0000-00-00", "2026-11-20", "\u0662" * 4 + "-11-20", "blog", "blog/month=2026-11", EVIL),
    *("-1", "0", "9" * 30, "9" * 5000, "1e999", "nan"),
)


def test_no_word_and_no_place_of_an_address_is_an_error_of_ours(pages, shelf):
    good = {"a": shelf.measured(), "a_target": "g5.xlarge", "b": shelf.measured(1)}
    good |= {"b_target": "c5.2xlarge", "suite": "blog"}
    found = [route for route in read_routes(pages.app) if queries(route)]
    assert {name for route in found for name in queries(route)} >= {*good, "skip", "runs", "metric"}
    for route in found:
        names = queries(route)
        usual = {name: good[name] for name in names if name in good}
        asked = [dict.fromkeys(names, word) for word in ODD_WORDS]
        asked += [usual | {name: word} for name in names for word in SHARP]
        for query in asked:
            answer = pages.client.get(address(route, query))
            assert answer.status_code < 500, (route.path, query)
    for route in read_routes(pages.app):
        for word in SHARP if places(route) else ():
            odd = dict.fromkeys(places(route), word)
            answer = pages.client.get(address(route, {"suite": "blog"}, **odd))
            assert answer.status_code < 500, (route.path, word)


def kept(library):
    """How much is kept of what was made or read."""
    parts = [*vars(library).values(), *vars(library.history).values()]
    return [len(part) for part in parts if isinstance(part, MutableMapping)]


def test_no_word_of_an_address_is_kept(pages, shelf):
    run_id = shelf.measured()
    library = pages.app.state.library()

    def ask(word):
        for route in read_routes(pages.app):
            words = {*queries(route)} - {"metric", "runs", "skip"} if word else ()
            query = {"suite": "blog"} | dict.fromkeys(words, word)
            pages.client.get(address(route, query, run_id=run_id))

    ask("")
    before = kept(library)
    assert sum(before)
    for word in ("none", "nothing"):
        ask(word)
    assert kept(library) == before


OF_A_RUN = {"run_id", "key", "folder", "a"}


def test_each_route_asks_for_the_right_of_the_dag_whose_run_it_shows(pages, shelf, monkeypatch):
    run_id = shelf.measured()
    shelf.planned(run_id, dag_id="job_comparison")
    (raw, *_) = shelf.store(run_id).keys("raw/")
    folder, _, name = raw.rpartition("/")
    given = {"dag_id": access.READ_DAG, "run_id": run_id}
    given |= {"folder": folder, "job_id": name.partition(".")[0]}
    query = {"a": run_id, "a_target": "g5.xlarge", "b": run_id, "b_target": "c5.2xlarge"}
    keys = [raw, f"{shelf.store(run_id).prefix}report.html"]
    found = [
        address(route, query, key=key, **given)
        for route in read_routes(pages.app)
        for key in (keys if "key" in places(route) else keys[:1])
        if OF_A_RUN & {*places(route), *queries(route)}
    ]
    assert len(found) >= 7
    for path in found:
        assert pages.client.get(path).status_code == 200, path
    monkeypatch.setitem(RIGHTS, "viewer", {("GET", access.READ_DAG)})
    with pages.seen_by("viewer") as client:
        for path in found:
            assert client.get(path).status_code == 403, path


@pytest.mark.parametrize("kind", [kind for kind in KINDS.values() if kind.folder])
def test_files_of_a_dag_take_its_right(pages, shelf, monkeypatch, kind):
    key = f"{kind.folder}/2026-11-20/run.json"
    shelf.bucket.put(key, b"{}")
    assert pages.client.get(f"/files/{key}").status_code == 200
    monkeypatch.setitem(RIGHTS, "viewer", {("GET", access.READ_DAG)})
    with pages.seen_by("viewer") as client:
        assert client.get(f"/files/{key}").status_code == 403


@pytest.mark.parametrize("name", ["report.html", "report.svg", "a.json", "log"])
def test_what_lies_in_the_bucket_is_shown_in_a_sandbox(pages, shelf, name):
    shelf.bucket.put(f"runs/run/{name}", b"<svg onload=alert(1)>")
    policy = pages.client.get(f"/files/runs/run/{name}").headers["content-security-policy"]
    assert policy == f"{HEADERS['Content-Security-Policy']}; sandbox"


def test_an_empty_history_says_how_to_begin_and_programs_get_errors_as_json(pages, shelf):
    assert "No runs yet. Trigger the DAG GPU-CPU benchmark" in pages.text("/runs")
    assert "The history is empty." in pages.text("/trends")
    assert "You have no runs yet" in pages.text("/compare")
    assert "No alerts yet" in pages.text("/alerts")
    assert "nothing has been spent" in pages.text("/costs")
    shelf.s3.on_call = failing(EndpointConnectionError(endpoint_url="http://127.0.0.1:1"))
    assert "This can't be shown now" in pages.text("/runs", 503).replace("&#39;", "'")
    answer = pages.client.get("/files/none", headers={"accept": "application/json"})
    assert answer.json() == {"detail": "This object does not exist, or you may not view it."}


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
