"""The list of runs, and what each of them left."""

import json
import re
from datetime import timedelta
from html import unescape
from itertools import cycle
from urllib.parse import unquote

import pytest

from batchmark.analysis.published import published_table
from batchmark.core.kinds import COSTING, KINDS
from batchmark.core.names import slug
from batchmark.history.imports.file import published_file
from batchmark.orchestration.web import access
from batchmark.orchestration.web.airflow_runs import AirflowRun
from batchmark.report.answer import OUTSIDE_EC2
from batchmark.report.change_records import ChangesSection
from batchmark.report.site.runs import STATES
from batchmark.report.site.trends import METRICS
from batchmark.report.words import NO_DOLLARS
from batchmark_job.result.document import Device
from batchmark_job.result.version import GivenVersion
from tests.builders.history import NOON, finished, run_of, two_targets
from tests.builders.libraries import NOW
from tests.builders.runs import CPU_ENVIRONMENT, GPU_ENVIRONMENT, LAPTOP_ENVIRONMENT
from tests.builders.scaling_runs import Cluster, sweep
from tests.builders.sharing import curve_rows, shared_row, sharing_job
from tests.stand_ins.visitors import RIGHTS, sides


def reported(shelf, run, changes=None):
    """A run that is in the history and has its report."""
    shelf.bucket.append(run)
    shelf.report(run, changes)
    return run


def test_runs_are_listed_newest_first_with_their_answers(pages, shelf):
    ids = [shelf.measured(day) for day in range(3)]
    text = pages.text("/runs")
    places = [text.index(f">{run_id}<") for run_id in reversed(ids)]
    assert places == sorted(places)
    assert text.count("Of 2 rows, the GPU is") == 4  # each, and the latest in the first sentence
    assert "The latest answer (suite blog, 2026-11-22 " in text
    for day in range(3, 25):
        shelf.measured(day)
    first = pages.text("/runs")
    older = re.search(r'href="([^"]*skip=20)"', first)[1].replace("&amp;", "&")
    assert first.count('role="row"') - 3 == 20
    assert pages.text(older).count('role="row"') - 1 == 5


OLD = {"commit": "8ab0c11" + "0" * 33, "branch": "main", "label": "nightly"}
NEW = {"commit": "3f2a91c" + "0" * 33, "branch": "faster"}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("commit=3f2a91c", [1]),
        (f"commit={OLD['commit']}", [0]),
        ("branch=main", [0]),
        ("branch=m", []),  # only hashes may be shortened
        ("label=nightly", [0]),
        ("label=nightly&branch=faster", []),
        ("image_digest=sha256:cdcd", [1]),
        ("image_digest=sha256:9a", [0]),
        ("commit=unknown", []),
        ("commit=8ab0c11&suite=blog&state=elsewhere", [0]),
    ],
)
def test_runs_are_found_by_their_version(pages, shelf, query, found):
    other = GPU_ENVIRONMENT.model_copy(update={"image_digest": "sha256:" + "cd" * 32})
    ids = [
        shelf.measured(0, version=GivenVersion(**OLD)),
        shelf.measured(1, version=GivenVersion(**NEW), environment=other),
    ]
    text = pages.text(f"/runs?{query}")
    assert [run_id in text for run_id in ids] == [place in found for place in range(2)]


def test_versions_are_there_to_choose_from_beside_their_runs_also_of_one_under_way(pages, shelf):
    shelf.measured(environment=LAPTOP_ENVIRONMENT)
    text = pages.text("/runs")
    assert 'name="state"' in text
    assert 'name="commit"' not in text
    shelf.measured(1, version=GivenVersion(**OLD))
    text = pages.text("/runs")
    assert f'<option value="{OLD["commit"]}">8ab0c11</option>' in text
    assert '<option value="nightly">nightly</option>' in text
    assert ", commit 8ab0c11, branch main, label nightly</span>" in text
    chosen = pages.text("/runs?label=%3Cscript%3E")
    assert '<option value="&lt;script&gt;" selected>' in chosen
    assert "No run of these." in chosen
    job = two_targets(version=GivenVersion(**OLD)).jobs[0].planned
    shelf.planned("manual__1", jobs=(job,), dag_id="gpu_cpu_benchmark")
    pages.runs = [AirflowRun("gpu_cpu_benchmark", "manual__1", NOW, "running")]
    assert ", commit 8ab0c11, branch main" in pages.text("/runs?commit=8ab0c11")
    assert "manual__1" not in pages.text("/runs?commit=3f2a91c")


@pytest.mark.parametrize(
    ("runs", "changed"), [(10, "not known yet: too few runs"), (11, "nothing worse")]
)
def test_the_list_and_the_report_agree_on_whether_a_change_could_show(pages, shelf, runs, changed):
    run = reported(shelf, two_targets(), ChangesSection(changes=(), series=4, runs=runs))
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


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("running", "It is still running"),
        ("queued", "It is queued"),
        ("failed", "It failed before its report was written"),
        ("success", "has no report page"),
    ],
)
def test_a_run_without_a_report_says_why(pages, shelf, state, words):
    shelf.measured()
    assert "Neither Airflow nor the result bucket" in pages.text("/runs/manual__1", 404)
    pages.runs = [AirflowRun("gpu_cpu_benchmark", "manual__1", NOW, state)]
    for path in ("/runs", "/runs/manual__1", "/dag-runs/gpu_cpu_benchmark/manual__1"):
        assert words in pages.text(path)
    pages.failures = [("measure.check_environment", "unknown target 'x'"), ("compare", None)]
    told = "measure.check_environment: unknown target 'x', compare: its log says why"
    assert (told in unescape(pages.text("/runs/manual__1"))) is (state == "failed")


def test_a_dry_run_shows_its_plan(pages, shelf):
    shelf.store("manual__1").write("plan.html", "<body>a plan")
    shelf.planned("manual__1", dry_run=True)
    pages.runs = [AirflowRun("gpu_cpu_benchmark", "manual__1", NOW, "success")]
    listed = pages.text("/runs")
    assert "Dry run." in listed
    assert "0 jobs, an unknown sum in AWS at most." in listed
    assert "No report." not in listed
    assert "a plan" in pages.text("/runs/manual__1")


def test_a_report_has_the_navigation_and_its_links_lead_here_and_only_to_results(pages, shelf):
    run_id = shelf.measured(page=True)
    text = pages.text(f"/runs/{run_id}")
    assert '<a href="/trends">Trends</a>' in text
    assert "console.aws.amazon.com/s3" not in text
    keys = set(re.findall(r'href="/files/([^"]+)"', text))
    assert keys
    assert set(map(unquote, keys)) <= set(shelf.store(run_id).keys("raw/"))
    for key in keys:
        assert json.loads(pages.text(f"/files/{key}"))["measurements"]
    shelf.s3.meta.endpoint_url = "http://127.0.0.1:5000"
    page = '<a href="http://127.0.0.1:5000/batchmark-results/raw/a%2Bb/1.json?X-Amz-Expires=9">'
    found = pages.app.state.library().relinked(page, "/batchmark")
    assert found == '<a href="/batchmark/files/raw/a%2Bb/1.json">'
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


@pytest.mark.parametrize(
    ("dag_id", "state"), [*zip(COSTING, cycle(["queued", "running", "failed", "success"]))]
)
def test_runs_of_every_dag_that_costs_something_are_listed(pages, dag_id, state):
    pages.runs = [
        AirflowRun(dag_id, "manual__1", NOW, state),
        AirflowRun("leak_guard", "guarding", NOW, state),
    ]
    for path in ("/runs", f"/dags/{dag_id}", f"/runs?dag={dag_id}&state={state}"):
        text = pages.text(path)
        assert f'href="/dag-runs/{dag_id}/manual__1"' in text
        assert f">{KINDS[dag_id].title}, {STATES[state]}<" in text
        assert "guarding" not in text
    others = [f"state={other}" for other in STATES if other != state]
    others += [f"dag={other}" for other in COSTING if other != dag_id]
    for query in (*others, "suite=blog"):
        text = pages.text(f"/runs?{query}")
        assert "manual__1" not in text
        assert "No run of these." in text


def test_a_run_that_airflow_forgot_is_known_by_its_plan(pages, shelf):
    run_id = shelf.measured(page=True)
    shelf.planned(run_id, dag_id="own_job_benchmark")
    text = pages.text("/dags/own_job_benchmark")
    assert ">Own job benchmark, not in this Airflow<" in text
    assert run_id not in pages.text("/dags/gpu_cpu_benchmark")
    assert "GPU" in pages.text(f"/runs/{run_id}")


def test_who_may_not_see_a_dags_runs_sees_none_of_them(pages, shelf, monkeypatch):
    monkeypatch.setitem(RIGHTS, "viewer", {("GET", access.READ_DAG)})
    shelf.store("secret__1").write("report.html", "<body>a secret")
    forgotten = shelf.measured()
    shelf.planned(forgotten, dag_id="own_job_benchmark")
    pages.runs = [
        AirflowRun("job_comparison", "secret__1", NOW, "running"),
        AirflowRun(access.READ_DAG, "manual__1", NOW, "running"),
    ]
    with pages.seen_by("viewer"):
        runs = pages.text("/runs")
        assert "secret__1" not in runs
        assert forgotten not in runs.partition("All runs")[2]
        assert "manual__1" in runs
        pages_of_it = [f"dag-runs/{dag}/secret__1" for dag in ("job_comparison", access.READ_DAG)]
        for path in ("runs/secret__1", "dags/job_comparison", *pages_of_it):
            assert "needs permission to see runs of job_comparison" in pages.text(f"/{path}", 403)


def test_runs_of_nodes_have_their_answer_their_trends_and_no_word_of_a_missing_cpu(pages, shelf):
    shelf.measured()
    ids = [f"nodes__{day}" for day in (1, 2)]
    for day, run_id in enumerate(ids, start=1):
        jobs = [finished(job, NOON + timedelta(days=day)) for job in sweep(Cluster(), (1, 2))]
        reported(shelf, run_of(*jobs, run_id=run_id))
    runs = pages.text("/runs")
    assert runs.count("Well to about 2 nodes or more") == 3  # the newest one above the list, too
    assert "No speedup for" not in runs
    assert "resnet50_data_parallel" in pages.text("/trends?suite=scaling")
    compared = pages.text(f"/compare?{sides(*ids, ['g5.xlarge'] * 2)}")
    assert "resnet50_data_parallel" in compared


def test_tasks_that_share_a_device_are_listed_shown_and_compared(pages, shelf):
    rows = [shared_row("exclusive", 1, 100.0), *curve_rows("time_slicing", {1: 99, 2: 190, 4: 192})]
    jobs = [sharing_job(target, rows) for target in ("g5.xlarge", "c5.2xlarge")]
    run = reported(shelf, run_of(*jobs, run_id="manual__sharing"))
    listed = pages.text("/")
    assert "Up to 2 replicas." in listed
    assert "the throughput of one replica alone" in listed
    report = pages.text(f"/runs/{run.run_id}")
    assert "How many of these tasks can share the device?" in report
    for metric in METRICS:
        assert 'role="alert"' not in pages.text(f"/trends?suite=sharing&metric={metric}")
    assert "batch 32, mode time_slicing, replicas 4" in pages.text("/trends?suite=sharing")
    both = sides(run.run_id, run.run_id, ("g5.xlarge", "c5.2xlarge"))
    assert "mode time_slicing, replicas 4" in pages.text(f"/compare?{both}")


def test_the_published_table_is_a_run_that_says_whose_it_is(pages, shelf):
    shelf.bucket.history.append_import(published_file())
    run_id = published_table().run_id
    runs = pages.text("/runs")
    for text in (
        "No runs yet. Trigger the DAG",
        ">suite imported, read on 2026-11-24</a>",
        "1 run, read on 2026-11-24",
        f">{run_id}<",
    ):
        assert text in runs
    assert runs.count("published by others") == 2  # its target over time, and its answer
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
    compared = pages.text(f"/compare?{sides(run_id, run_id, targets)}")
    assert "was imported, so it has no samples" in compared


def test_why_targets_have_no_speedup_over_time_is_said(pages, shelf):
    shelf.bucket.history.append_import(published_file())
    shelf.measured(environment=LAPTOP_ENVIRONMENT, actual_device=Device.CPU)
    assert (
        "No speedup for c5.2xlarge, g5.xlarge in suite blog: it takes a GPU and a CPU in one run, "
        "and a GPU target that ran on the CPU doesn't count."
    ) in unescape(pages.text("/runs"))
