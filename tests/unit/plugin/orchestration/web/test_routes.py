"""Every page inside Airflow: who may see it, what it says, and that text stays text."""

import csv
import io
import json
import re
from datetime import timedelta
from html import unescape
from urllib.parse import urlencode

import pytest
from botocore.exceptions import EndpointConnectionError
from fastapi.routing import APIRoute

from batchmark.analysis.published import published_table
from batchmark.changes.alerts.store import AlertStore
from batchmark.core.kinds import COSTING, KINDS
from batchmark.core.names import slug
from batchmark.core.run import RunPlan
from batchmark.history.imports.file import published_file
from batchmark.orchestration import settings
from batchmark.orchestration.web import access
from batchmark.orchestration.web.airflow_runs import AirflowRun, Schedule
from batchmark.orchestration.web.app import HEADERS
from batchmark.report.answer import OUTSIDE_EC2
from batchmark.report.changes import ChangesSection
from batchmark.report.model import Report
from batchmark.report.site.runs import STATES
from batchmark.report.site.trends import MARKS, METRICS, series_id
from batchmark.report.words import NO_DOLLARS
from batchmark_job.result.document import Device
from tests.builders.alerts import change, point
from tests.builders.history import NOON, finished, run_of, two_targets
from tests.builders.libraries import NOW
from tests.builders.runs import (
    CPU_ENVIRONMENT,
    GPU_ENVIRONMENT,
    LAPTOP_ENVIRONMENT,
    build_lost,
    build_run,
)
from tests.builders.scaling_runs import Cluster, sweep
from tests.builders.sharing import curve_rows, shared_row, sharing_job
from tests.stand_ins.visitors import RIGHTS

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


def sides(first, second, targets=("g5.xlarge", "g5.xlarge")):
    return urlencode({"a": first, "a_target": targets[0], "b": second, "b_target": targets[1]})


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


def test_runs_are_listed_newest_first_with_their_answers(pages, shelf):
    ids = [shelf.measured(day) for day in range(3)]
    text = pages.text("/runs")
    places = [text.index(f">{run_id}<") for run_id in reversed(ids)]
    assert places == sorted(places)
    assert text.count("Of 2 rows, the GPU is") == 4  # each, and the latest in the first sentence
    assert "The latest answer: " in text


@pytest.mark.parametrize(("runs", "changed"), [(10, "not known yet"), (11, "nothing worse")])
def test_the_list_and_the_report_agree_on_whether_a_change_could_show(pages, shelf, runs, changed):
    run = two_targets()
    shelf.bucket.append(run)
    shelf.report(run, ChangesSection(changes=(), series=4, runs=runs))
    assert f'data-label="Changed"><span>{changed}<' in pages.text("/runs")
    report = pages.text(f"/runs/{run.run_id}")
    assert ("Nothing changed" in report) == (changed == "nothing worse")


def test_why_there_are_no_dollars_is_said_once(pages, shelf):
    outside = CPU_ENVIRONMENT.model_copy(update={"instance_type": None, "instance_id": None})
    ids = [shelf.measured(day, environment=outside) for day in range(2)]
    for run_id in ids:
        summary = json.loads(shelf.store(run_id).read(f"runs/{slug(run_id)}/summary.json"))
        summary |= {"cost": OUTSIDE_EC2, "usd": None}
        shelf.store(run_id).write("summary.json", json.dumps(summary))
        shelf.booked(run_id, 0.0)
    text = pages.text("/runs")
    assert text.count(OUTSIDE_EC2) == 1
    assert text.count(f'data-label="Cost"><span>{NO_DOLLARS}<') == 2
    costs = pages.text("/costs")
    assert NO_DOLLARS in costs
    assert "$0" not in costs


def test_many_runs_are_read_in_steps(pages, shelf):
    for day in range(25):
        shelf.measured(day)
    first = pages.text("/runs")
    older = re.search(r'href="([^"]*skip=20)"', first)[1].replace("&amp;", "&")
    assert first.count('role="row"') - 3 == 20
    assert pages.text(older).count('role="row"') - 1 == 5


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("running", "It is still running"),
        ("queued", "waits for its turn"),
        ("failed", "It failed before it had a report"),
        ("success", "left no page"),
    ],
)
def test_a_run_without_a_report_says_why(pages, shelf, state, words):
    shelf.measured()
    pages.runs = [AirflowRun("gpu_cpu_benchmark", "manual__1", NOW, state)]
    assert words in pages.text("/runs")
    assert words in pages.text("/runs/manual__1")
    assert words in pages.text("/dag-runs/gpu_cpu_benchmark/manual__1")


def test_a_failed_run_without_a_report_says_what_its_tasks_told(pages):
    pages.runs = [AirflowRun("gpu_cpu_benchmark", "manual__1", NOW, "failed")]
    pages.failures = [("measure.check_environment", "unknown target 'x'"), ("compare", None)]
    text = unescape(pages.text("/runs/manual__1"))
    assert "measure.check_environment: unknown target 'x', compare: its log says why" in text


def test_a_dry_run_shows_its_plan(pages, shelf):
    store = shelf.store("manual__1")
    store.write("plan.html", "<body>a plan")
    store.write("plan.json", RunPlan(jobs=(), dry_run=True).model_dump_json())
    pages.runs = [AirflowRun("gpu_cpu_benchmark", "manual__1", NOW, "success")]
    listed = pages.text("/runs")
    assert "Dry run." in listed
    assert "0 jobs, an unknown sum in AWS at most." in listed
    assert "No report." not in listed
    assert "a plan" in pages.text("/runs/manual__1")


def test_a_run_that_nobody_knows_is_not_found(pages):
    assert "Neither Airflow nor the result bucket" in pages.text("/runs/none", 404)


def test_a_run_that_lost_its_cpu_side_says_so(pages, shelf):
    run = run_of(two_targets().jobs[0])
    run = run.model_copy(update={"lost": (build_lost("c5.2xlarge", "killed"),)})
    shelf.bucket.append(run)
    shelf.report(run)
    assert "killed" in pages.text(f"/runs/{run.run_id}")
    assert "Not known." in pages.text("/runs")


def test_a_report_has_the_navigation_and_its_links_lead_here(pages, shelf):
    run_id = shelf.measured(page=True)
    store = shelf.store(run_id)
    text = pages.text(f"/runs/{run_id}")
    assert '<a href="/trends">Trends</a>' in text
    assert "console.aws.amazon.com/s3" not in text
    keys = set(re.findall(r'href="/files/([^"]+)"', text))
    raw = {key.replace("%2B", "+").replace("%3A", ":") for key in keys}
    assert raw
    assert raw <= set(store.keys("raw/"))
    for key in keys:
        assert json.loads(pages.text(f"/files/{key}"))["measurements"]


def test_a_link_of_a_local_cloud_leads_here_too(pages, shelf):
    shelf.s3.meta.endpoint_url = "http://127.0.0.1:5000"
    page = '<a href="http://127.0.0.1:5000/batchmark-results/raw/a%2Bb/1.json?X-Amz-Expires=9">'
    found = pages.app.state.library().relinked(page, "/batchmark")
    assert found == '<a href="/batchmark/files/raw/a%2Bb/1.json">'


def test_only_results_are_shown_of_the_bucket(pages, shelf):
    shelf.s3.objects |= {"terraform.tfstate": b"secret", "alerts/1.json": b"secret"}
    for key in ("terraform.tfstate", "alerts/1.json", "raw/../terraform.tfstate", "raw/none"):
        assert "secret" not in pages.text(f"/files/{key}", 404)


def test_the_result_of_a_job_is_its_latest_attempt(pages, shelf):
    folder = "raw/run/g5.xlarge/blog/1/"
    for name in ("job-1.1", "job-1.2", "job-1.10", "job-10.1"):
        shelf.bucket.put(f"{folder}{name}.json", b"{}")
    answer = pages.client.get("/results/raw/run/g5.xlarge/blog/1/job-1", follow_redirects=False)
    assert answer.headers["location"] == f"/files/{folder}job-1.10.json"
    assert "no result document" in pages.text("/results/raw/run/g5.xlarge/blog/1/job-2", 404)
    shelf.bucket.put(f"{folder}job-3_0.1.json", b"{}")
    child = pages.client.get(f"/results/{folder}job-3%3A0", follow_redirects=False)
    assert child.headers["location"] == f"/files/{folder}job-3_0.1.json"


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.dag_id)
def test_each_dag_leads_to_its_pages(pages, shelf, kind):
    store = shelf.store("manual__1")
    keys = [f"{kind.folder}/2026-11-20/manual__1.html"] if kind.folder else []
    for key in (*(f"{store.prefix}{name}.html" for name in kind.pages), *keys):
        store.put(key, f"<body>what lies at {key}")
        assert f"what lies at {key}" in pages.text(f"/dag-runs/{kind.dag_id}/manual__1")
        shelf.s3.delete_object(Bucket=store.bucket, Key=key)
    pages.runs = [AirflowRun(kind.dag_id, "manual__1", NOW, "success")]
    text = pages.text(f"/dags/{kind.dag_id}")
    assert (f"/dag-runs/{kind.dag_id}/manual__1" in text) is kind.has_pages


@pytest.mark.parametrize("state", ["queued", "running", "failed", "success"])
@pytest.mark.parametrize("dag_id", COSTING)
def test_runs_of_every_dag_that_costs_something_are_listed(pages, dag_id, state):
    pages.runs = [
        AirflowRun(dag_id, "manual__1", NOW, state),
        AirflowRun("leak_guard", "guarding", NOW, state),
    ]
    for path in ("/runs", f"/dags/{dag_id}", f"/runs?dag={dag_id}&state={state}"):
        text = pages.text(path)
        assert f'href="/dag-runs/{dag_id}/manual__1"' in text
        assert f", {KINDS[dag_id].title}, {STATES[state]}<" in text
        assert "guarding" not in text
    others = [f"state={other}" for other in STATES if other != state]
    others += [f"dag={other}" for other in COSTING if other != dag_id]
    for query in (*others, "suite=blog"):
        text = pages.text(f"/runs?{query}")
        assert "manual__1" not in text
        assert "No run of these." in text


def test_a_run_that_airflow_forgot_is_known_by_its_plan(pages, shelf):
    run_id = shelf.measured(page=True)
    plan = RunPlan(jobs=(), dag_id="own_job_benchmark", run_id=run_id)
    shelf.store(run_id).write("plan.json", plan.model_dump_json())
    text = pages.text("/dags/own_job_benchmark")
    assert "Own job benchmark, suite blog, not in this Airflow" in text
    assert run_id not in pages.text("/dags/gpu_cpu_benchmark")
    assert "GPU" in pages.text(f"/runs/{run_id}")


def test_who_may_not_see_a_dags_runs_sees_none_of_them(pages, shelf, monkeypatch):
    monkeypatch.setitem(RIGHTS, "viewer", {("GET", access.READ_DAG)})
    shelf.store("secret__1").write("report.html", "<body>a secret")
    forgotten = shelf.measured()
    plan = RunPlan(jobs=(), dag_id="own_job_benchmark", run_id=forgotten)
    shelf.store(forgotten).write("plan.json", plan.model_dump_json())
    pages.runs = [
        AirflowRun("job_comparison", "secret__1", NOW, "running"),
        AirflowRun(access.READ_DAG, "manual__1", NOW, "running"),
    ]
    with pages.seen_by("viewer"):
        assert "secret__1" not in pages.text("/runs")
        assert forgotten not in pages.text("/runs").partition("All runs")[2]
        assert "manual__1" in pages.text("/runs")
        for path in ("runs/secret__1", "dag-runs/job_comparison/secret__1", "dags/job_comparison"):
            assert "needs the right to see runs of job_comparison" in pages.text(f"/{path}", 403)


def test_each_scheduled_dag_has_a_forecast_from_its_own_runs(pages, shelf):
    ids = [f"run__{number}" for number in range(2)]
    for run_id, usd in zip(ids, (2.0, 5.0), strict=True):
        shelf.booked(run_id, usd)
    pages.runs = [AirflowRun("own_job_benchmark", ids[0], NOW, "success")]
    plan = RunPlan(jobs=(), dag_id=access.READ_DAG, run_id=ids[1])
    shelf.store(ids[1]).write("plan.json", plan.model_dump_json())
    text = unescape(pages.text("/costs"))
    for dag_id, usd in (("own_job_benchmark", "$8.00"), (access.READ_DAG, "$20.00")):
        assert f"4 scheduled runs of {dag_id} next month, about {usd}" in text
    pages.schedule = Schedule(None, paused=True)
    assert "own_job_benchmark" not in pages.text("/costs")


def test_runs_of_nodes_have_their_answer_their_trends_and_no_word_of_a_missing_cpu(pages, shelf):
    shelf.measured()
    jobs = [
        [finished(job, NOON + timedelta(days=day)) for job in sweep(Cluster(), (1, 2))]
        for day in (1, 2)
    ]
    ids = [f"nodes__{day}" for day in (1, 2)]
    for run_id, of_run in zip(ids, jobs, strict=True):
        run = run_of(*of_run, run_id=run_id)
        shelf.bucket.append(run)
        shelf.report(run)
    runs = pages.text("/runs")
    assert runs.count("Well to about 2 nodes or more") == 3  # the newest one above the list, too
    assert "No speedup for" not in runs
    assert "resnet50_data_parallel" in pages.text("/trends?suite=scaling")
    compared = pages.text(f"/compare?{sides(*ids, ['g5.xlarge'] * 2)}")
    assert "resnet50_data_parallel" in compared


def test_trends_show_every_series_with_alerts_and_releases(pages, shelf):
    ids = [shelf.measured(day, environment=GPU_ENVIRONMENT) for day in range(4)]
    other = GPU_ENVIRONMENT.model_copy(update={"image_digest": "sha256:" + "cd" * 32})
    ids.append(shelf.measured(4, slowdown=1.5, environment=other))
    (series, *_) = pages.app.state.library().series("blog", "time", 60)
    shelf.alert(change(point(of=series.key, first_run_id=ids[4])))
    text = pages.text("/trends")
    assert "4 series over up to 5 runs, 1 with an alert." in text
    assert text.count('class="mark alert"') == 1
    assert text.count(", a change since ") == 2  # to be read, and to be heard
    assert text.count(" before, not known yet") == 2 * 3
    assert text.count("dashed: image digest</span>") == 4
    assert re.search(r"<title>[^<]*: image digest sha256:\w+ → sha256:cdcdcdcdcdcd", text)
    found = re.search(r'href="(/trends/[^"]+)"', text)[1].replace("&amp;", "&")
    one = pages.text(found)
    assert "<svg" in one
    assert "<title>image digest sha256:" in one
    assert f">{MARKS['release']}</text>" in one
    assert re.search(r">[\d.]+ ms</text>", one)
    assert not re.search(r">[\d.]+[mµn]</text>", one)
    assert one.count('scope="row"') == 5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, {"a change"}),
        ('{"false_alerts_a_month": 1e-300}', {"beyond the noise", "within the noise"}),
        ('{"false_alerts_a_month": 0}', {"a change"}),  # the next run says that it can't be used
    ],
)
def test_a_change_needs_the_evidence_that_runs_ask_for(pages, shelf, monkeypatch, text, words):
    for day in range(30):
        shelf.bucket.append(two_targets(day, slowdown=1.3 if day >= 24 else 1.0))
    monkeypatch.setattr(settings.Variable, "get", lambda *_, **__: text)
    found = pages.app.state.library().standings("blog", "time", 60)
    assert {one.word for one in found.values()} <= words


def test_thirty_runs_with_a_change_show_it_where_it_happened(pages, shelf):
    runs = [two_targets(day, slowdown=1.3 if day >= 20 else 1.0) for day in range(30)]
    for run in runs:
        shelf.bucket.append(run)
    (series, *_) = pages.app.state.library().series("blog", "time", 60)
    alert = shelf.alert(change(point(of=series.key, first_run_id=runs[20].run_id, after=0.013)))
    text = pages.text("/trends")
    assert "4 series over up to 30 runs, 1 with an alert." in text
    one = pages.text(f"/trends/{series_id(series.key)}?suite=blog")
    rows = re.findall(r'<th role="rowheader".*?</tr>', one, re.DOTALL)
    assert len(rows) == 30
    (marked,) = [row for row in rows if alert.id in row]
    assert "+30 %" in marked
    assert runs[20].run_id in marked


def test_a_single_run_shows_its_value_and_no_range(pages, shelf):
    shelf.measured()
    span = r'<span class="small">([^<]*; 1 run since [^<]*)</span>'
    spans = re.findall(span, pages.text("/trends"))
    assert len(spans) == 4
    assert not any(" to " in span for span in spans)


def test_a_percentage_on_trends_says_what_it_is_worth(pages, shelf):
    for day in range(30):
        shelf.bucket.append(two_targets(day, slowdown=1.3 if day >= 20 else 1.0))
    text = pages.text("/trends")
    assert text.count("+30 %, a change since 2026-") == 2 * 4
    speedups = pages.text("/trends?metric=speedup")
    assert speedups.count(" before, within the noise") == 2 * 2
    (overview,) = re.findall(r'id="overview".*?</table>', pages.text("/runs"), re.DOTALL)
    assert " %" not in overview


def test_tasks_that_share_a_device_are_listed_shown_and_compared(pages, shelf):
    rows = [shared_row("exclusive", 1, 100.0), *curve_rows("time_slicing", {1: 99, 2: 190, 4: 192})]
    jobs = [sharing_job(target, rows) for target in ("g5.xlarge", "c5.2xlarge")]
    run = run_of(*jobs, run_id="manual__sharing")
    shelf.bucket.append(run)
    shelf.report(run)
    listed = pages.text("/")
    assert "Up to 2 replicas." in listed
    assert "the throughput of one alone" in listed
    report = pages.text(f"/runs/{run.run_id}")
    assert "How many of these tasks may share the device?" in report
    for metric in METRICS:
        assert 'role="alert"' not in pages.text(f"/trends?suite=sharing&metric={metric}")
    assert "batch 32, mode time_slicing, replicas 4" in pages.text("/trends?suite=sharing")
    both = sides(run.run_id, run.run_id, ("g5.xlarge", "c5.2xlarge"))
    assert "mode time_slicing, replicas 4" in pages.text(f"/compare?{both}")


def test_trends_as_csv(pages, shelf):
    run_id = shelf.measured()
    rows = list(csv.reader(io.StringIO(pages.text("/trends.csv?suite=blog"))))
    assert rows[0] == ["row", "target", "run", "recorded_at", "time"]
    assert len(rows) == 1 + 4
    assert {row[2] for row in rows[1:]} == {run_id}


def test_a_series_that_is_not_there(pages, shelf):
    shelf.measured()
    assert "no such series" in pages.text("/trends/none?suite=blog", 404)


def test_a_comparison_says_what_the_report_says(pages, shelf):
    run_id = shelf.measured()
    report = Report.model_validate_json(
        shelf.store(run_id).read(f"runs/{slug(run_id)}/report.json")
    )
    query = sides(run_id, run_id, ("g5.xlarge", "c5.2xlarge"))
    found = json.loads(pages.text(f"/compare.json?{query}"))
    for ours, theirs in zip(found["suites"][0]["rows"], report.pairs[0].rows, strict=True):
        assert ours["speedup"]["value"] == pytest.approx(theirs.speedup.value)
        assert ours["verdict"] == theirs.verdict
    assert "1.0×" in pages.text(f"/compare?{query}")


def test_a_comparison_can_be_taken_along(pages, shelf):
    query = sides(shelf.measured(), shelf.measured(1, slowdown=4.0))
    rows = list(csv.DictReader(io.StringIO(pages.text(f"/compare.csv?{query}"))))
    assert [row["verdict"] for row in rows] == ["faster", "faster"]
    assert float(rows[0]["ratio"]) == pytest.approx(4.0, rel=0.05)
    markdown = pages.text(f"/compare.md?{query}")
    assert "| matmul size 1000, float32 |" in markdown
    assert "| speedup [95 %] |" in markdown
    assert "ratio" not in markdown
    assert re.search(r"The speedup is the time of g5.* / the time of g5.*\.", markdown)
    assert pages.client.get(f"/compare.png?{query}").content.startswith(b"\x89PNG")
    assert "faster in 2, slower in 0" in pages.text(f"/compare?{query}")
    slightly = sides(shelf.measured(2), shelf.measured(3, slowdown=2.3))
    assert pages.text(f"/compare?{slightly}").count("leaves out 1, which is not enough") == 1
    pages.text(f"/compare.exe?{query}", 404)


def test_a_side_may_be_an_image_or_a_day(pages, shelf):
    first = shelf.measured()
    other = CPU_ENVIRONMENT.model_copy(update={"image_digest": "sha256:" + "cd" * 32})
    second = shelf.measured(3, environment=other)
    chosen = pages.app.state.library().chosen
    assert chosen("sha256:cdcdcd", "c5.2xlarge").run.run_id == second
    assert chosen(f"{NOON + timedelta(days=2):%Y-%m-%d}", "c5.2xlarge").run.run_id == first
    assert chosen(f"{NOON + timedelta(days=9):%Y-%m-%d}", "c5.2xlarge").run.run_id == second
    text = pages.text(f"/compare?{sides('2020-01-01', second)}")
    assert "There is no run of g5.xlarge on or before 2020-01-01: choose a later day" in text


def test_sides_that_are_not_there_are_named(pages, shelf):
    run_id = shelf.measured()
    text = unescape(pages.text(f"/compare?{sides('none', run_id)}"))
    assert "There is no run 'none': choose one that" in text
    text = pages.text(f"/compare?{sides(run_id, run_id, ('g5.xlarge', 'p5.48xlarge'))}")
    assert "no target p5.48xlarge, but c5.2xlarge, g5.xlarge" in text


def test_the_published_table_is_a_run_that_says_whose_it_is(pages, shelf):
    shelf.bucket.history.append_import(published_file())
    run_id = published_table().run_id
    runs = pages.text("/runs")
    assert "No run yet. Trigger the DAG" in runs
    assert "read on 2026-11-24, suite imported" in runs
    assert "1 run, read on 2026-11-24" in runs
    assert f">{run_id}<" in runs
    assert runs.count("published by others") >= 3  # its targets over time, and its answer
    assert "Can it be trusted?" in pages.text(f"/runs/{run_id}")
    trends = pages.text("/trends?suite=imported&metric=speedup")
    assert trends.count('<th role="rowheader"') == len(published_table().judged)
    assert "g5.8xlarge over r5.4xlarge, published by others" in trends
    own = shelf.measured()
    runs = pages.text("/runs")
    assert runs.index(f">{own}<") < runs.index(f">{run_id}<")
    assert runs.index(">g5.xlarge over c5.2xlarge<") < runs.index(">g5.8xlarge over r5.4xlarge,")
    assert "No speedup for" not in runs
    assert re.findall("<option[^>]*>([a-z]+)<", pages.text("/trends"))[:2] == ["blog", "imported"]
    compare = pages.text("/compare")
    assert run_id not in compare
    assert "published by others" not in compare
    targets = [f"{name}, published by others" for name in ("g5.8xlarge", "r5.4xlarge")]
    assert "was imported: it has no samples" in pages.text(
        f"/compare?{sides(run_id, run_id, targets)}"
    )


def test_why_targets_have_no_speedup_over_time_is_said(pages, shelf):
    shelf.bucket.history.append_import(published_file())
    shelf.measured(environment=LAPTOP_ENVIRONMENT, actual_device=Device.CPU)
    assert (
        "No speedup for c5.2xlarge, g5.xlarge in suite blog: it takes a GPU and a CPU in one run, "
        "and a GPU target that ran on the CPU doesn't count."
    ) in unescape(pages.text("/runs"))


def test_a_gpu_target_that_ran_on_the_cpu_is_marked_wherever_its_figures_are(pages, shelf):
    run_id = shelf.measured(environment=LAPTOP_ENVIRONMENT, actual_device=Device.CPU)
    label = "g5.xlarge (ran on the CPU)"
    trends = pages.text("/trends?suite=blog")
    assert label in trends
    assert "c5.2xlarge (ran" not in trends
    addresses = re.findall(r'href="([^"]*/trends/[^"?]+[^"]*)"', unescape(trends))
    assert any(label in pages.text(address) for address in addresses)
    assert label in pages.text("/trends.csv?suite=blog")
    query = sides(run_id, run_id)
    for page in ("compare", "compare.json"):
        assert f"{label} in {run_id}" in pages.text(f"/{page}?{query}")
    assert label in pages.text(f"/compare.md?{query}")


def test_a_row_that_the_newest_run_did_not_measure_says_so(pages, shelf):
    shelf.measured()
    missed = "not measured in the newest run"
    assert missed not in pages.text("/trends?suite=blog")
    shelf.measured(1, environment=LAPTOP_ENVIRONMENT, actual_device=Device.CPU)
    text = pages.text("/trends?suite=blog")
    assert missed in text
    assert "first run" in text
    assert f"{missed}; first run" not in text


def test_the_form_of_a_comparison_begins_with_the_newest_run(pages, shelf):
    shelf.measured()
    run_id = shelf.measured(1)
    text = pages.text("/compare")
    assert re.findall(r'name="(a|b)" list="runs" value="([^"]*)"', unescape(text)) == [
        ("a", run_id),
        ("b", run_id),
    ]
    assert re.findall("<option selected>([^<]*)", text) == ["g5.xlarge", "c5.2xlarge"]
    assert "Choose two sides" in text


def token_of(text):
    return re.search(r'name="token" value="([^"]+)"', text)[1]


def test_an_editor_changes_an_alert(pages, shelf):
    alert = shelf.alert()
    form = {"token": token_of(pages.text("/alerts")), "state": "acknowledged", "note": EVIL}
    answer = pages.client.post(f"/alerts/{alert.id}", data=form, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/alerts#{alert.id}")
    (changed,) = AlertStore(shelf.store("")).alerts()
    assert (changed.state, changed.transitions[-1].by) == ("acknowledged", "editor")
    text = pages.text("/alerts")
    assert EVIL not in text
    assert "&lt;script&gt;" in text


@pytest.mark.parametrize(
    ("visitor", "headers", "token"),
    [
        ("viewer", {}, None),
        ("editor", {}, ""),
        ("editor", {}, "forged"),
        ("editor", {"sec-fetch-site": "cross-site"}, None),
        ("editor", {"sec-fetch-site": "same-site"}, None),
    ],
)
def test_others_change_no_alert(pages, shelf, visitor, headers, token):
    alert = shelf.alert()
    form = {"token": token_of(pages.text("/alerts")) if token is None else token, "state": "fixed"}
    with pages.seen_by(visitor) as client:
        assert client.post(f"/alerts/{alert.id}", data=form, headers=headers).status_code == 403
    assert AlertStore(shelf.store("")).alerts() == [alert]


def test_a_viewer_sees_no_form(pages, shelf):
    shelf.alert()
    with pages.seen_by("viewer"):
        text = pages.text("/alerts")
    assert "<form" not in text
    assert "needs the right to trigger the DAG" in text


def test_a_state_that_may_not_follow_is_refused(pages, shelf):
    alert = shelf.alert()
    for state, status in (("recovered", 422), ("open", 409), ("nonsense", 422)):
        form = {"token": token_of(pages.text("/alerts")), "state": state}
        assert pages.client.post(f"/alerts/{alert.id}", data=form).status_code == status
    form = {"token": token_of(pages.text("/alerts")), "state": "fixed"}
    assert pages.client.post("/alerts/none", data=form).status_code == 409


def test_costs_by_month_and_target_with_what_comes(pages, shelf):
    run_id = shelf.measured()
    shelf.booked(run_id, 1.25, job=two_targets().jobs[0].job_id, at=NOON)
    shelf.booked("stopped", 31.2, finished=False, at=NOON)
    shelf.booked("elsewhere", 1.0, at=NOON)
    pages.runs = [
        AirflowRun("gpu_cpu_benchmark", one, NOON, "success") for one in (run_id, "elsewhere")
    ]
    text = pages.text("/costs")
    assert "2026-11: $33.45. 2 runs finished, 1 not finished, counted at the most" in text
    assert 'href="/runs/stopped"' in text
    assert "g5.xlarge: $1.25; of no target known: $1.00" in text
    assert "4 scheduled runs of gpu_cpu_benchmark next month, about $4.50" in text
    pages.schedule = Schedule(4, paused=True)
    assert "is paused: its schedule will cost nothing" in pages.text("/costs")


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
    def refuse(operation, key):
        raise EndpointConnectionError(endpoint_url="http://127.0.0.1:1")

    shelf.s3.on_call = refuse
    assert "This can't be shown now" in pages.text("/runs", 503).replace("&#39;", "'")


def test_programs_get_their_errors_as_json(pages):
    answer = pages.client.get("/files/none", headers={"accept": "application/json"})
    assert answer.json() == {"detail": "There is no such object, or it is not one that is shown."}
