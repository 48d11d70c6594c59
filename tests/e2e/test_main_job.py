"""The main job through the real chain: Airflow's components, Batch over HTTP, S3, the report."""

import json
from collections import Counter

import httpx
import pytest

from batchmark.aws.result_bucket import PRICES, PRICES_FOLDER, REPORT_HTML, REPORT_JSON
from batchmark.core.prices import PriceTable, load_prices
from batchmark.history.store import HistoryStore
from batchmark_job.result.document import parse_document
from laptop.demo import DAG_ID
from tests.e2e.stacks import store_of

pytestmark = pytest.mark.timeout(2400)


def test_a_gpu_target_is_compared_with_a_cpu_target(report):
    (pair,) = report.pairs
    assert (pair.gpu.target, pair.cpu.target) == ("g4dn.xlarge", "c5.2xlarge")
    assert pair.rows
    assert len(pair.rows) + len(pair.uncompared) >= 12  # on a busy machine, some do not settle
    assert report.lost == ()
    for row in pair.rows:
        assert row.speedup.value == pytest.approx(
            row.cpu.median_seconds.value / row.gpu.median_seconds.value
        )


def test_what_ran_on_the_cpu_is_said_first(report):
    (pair,) = report.pairs
    on_gpu = pair.gpu.environment.gpu_count > 0
    assert pair.cpu_fallback is not on_gpu
    assert on_gpu or "g4dn.xlarge ran on the CPU" in report.notices[0]


def test_every_row_leads_to_its_job_log_and_document(report, stack, aws):
    batch, logs = aws.client("batch"), aws.client("logs")
    for row in report.pairs[0].rows:
        for side in (row.gpu, row.cpu):
            (job,) = side.provenance
            (described,) = batch.describe_jobs(jobs=[job.job_id])["jobs"]
            assert described["status"] == "SUCCEEDED"
            assert described["container"]["logStreamName"] == job.log_stream
            events = logs.get_log_events(
                logGroupName=job.log_group, logStreamName=job.log_stream, startFromHead=True
            )["events"]
            assert any(row.workload in event["message"] for event in events)
            document = parse_document((stack.folder / job.document_url).read_bytes())
            assert document.job_id == job.job_id
            assert (stack.folder / job.log_url).read_text().count("\n") >= len(events)
            bucket, _, key = job.document_uri.removeprefix("s3://").partition("/")
            raw = aws.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
            assert parse_document(raw) == document


def test_the_published_reports_links_open_in_a_browser(report, aws):
    store = store_of(aws, report.run_id)
    published = json.loads(store.read(store.prefix + REPORT_JSON))
    for job in published["pairs"][0]["gpu"]["jobs"] + published["pairs"][0]["cpu"]["jobs"]:
        for link in (job["log_url"], job["document_url"]):
            assert httpx.get(link).status_code == 200, link
    page = httpx.get(store.object_url(store.prefix + REPORT_HTML))
    assert page.headers["content-type"].startswith("text/html")


def test_the_runs_prices_say_that_they_are_the_local_clouds(report, aws):
    store = store_of(aws, report.run_id)
    prices = PriceTable.model_validate_json(store.read(store.prefix + PRICES))
    assert prices.on_demand == {
        name: load_prices().on_demand[name] for name in aws.config().targets
    }
    assert prices.source.startswith("the local cloud's price file, not AWS today: ")
    assert report.prices.source == prices.source
    dated = store.read(f"{PRICES_FOLDER}{prices.region}/{prices.as_of}/{store.name}.json")
    assert PriceTable.model_validate_json(dated) == prices


def test_the_report_is_there_as_json_and_as_one_page(report, stack):
    written = json.loads((stack.folder / REPORT_JSON).read_text())
    assert written["run_id"] == report.run_id
    page = (stack.folder / REPORT_HTML).read_text()
    assert report.pairs[0].gpu.jobs[0].job_id in page


def test_airflows_own_components_ran_the_dag(report, stack, airflow):
    health = httpx.get(f"{stack.airflow.url}/api/v2/monitor/health").json()
    for component in ("metadatabase", "scheduler", "dag_processor", "triggerer"):
        assert health[component]["status"] == "healthy"
    tasks = airflow.task_instances(DAG_ID, report.run_id)
    operators = {task["task_id"]: task["operator"] for task in tasks}
    assert operators["run_benchmark"] == "BenchmarkJobOperator"
    not_needed = {"rerun_once", "find_agreeing", "rerun_twice", "announce_regressions"}
    for task in tasks:
        expected = "skipped" if task["task_id"] in not_needed else "success"
        assert task["state"] == expected, task["task_id"]


def test_a_jobs_task_links_to_its_log_and_tells_its_times(report, airflow):
    jobs = airflow.instances(DAG_ID, report.run_id, "run_benchmark")
    assert len(jobs) == 2
    for task in jobs:
        job_id = airflow.xcom(task, "job_id")
        page = httpx.get(airflow.links(task)["Log"])
        assert page.text.startswith(f"Job {job_id} is SUCCEEDED, attempt 1\n")
        assert page.text.count("\n") > 10
        timing = airflow.xcom(task, "timing")
        assert timing["job_id"] == job_id
        assert timing["phases"]["last_attempt_seconds"] > 0
        assert timing["marks"]["process_started_at"] < timing["stopped_at"]


def test_the_reports_asset_has_an_event_with_the_jobs_times(report, airflow):
    events = {one["name"]: one for one in airflow.asset_events(DAG_ID, report.run_id)}
    assert set(events) == {"batchmark_results", "batchmark_report"}
    event = events["batchmark_report"]
    assert event["extra"]["run_id"] == report.run_id
    for job in event["extra"]["jobs"]:
        assert job["created_at"] < job["started_at"] < job["stopped_at"]


def test_the_runs_rows_are_in_the_history(report, airflow, aws):
    history = HistoryStore(aws.client("s3"), aws.config().bucket)
    table = history.read(["target", "status"], suites=["smoke"], run_ids=[report.run_id])
    counts = Counter(zip(table["target"].to_pylist(), table["status"].to_pylist(), strict=True))
    (pair,) = report.pairs
    for target, side in ((pair.gpu.target, "gpu"), (pair.cpu.target, "cpu")):
        sides = [getattr(row, side) for row in (*pair.rows, *pair.uncompared)]
        assert counts[target, "measured"] == len([one for one in sides if one])
    (event,) = [
        one
        for one in airflow.asset_events(DAG_ID, report.run_id)
        if one["name"] == "batchmark_results"
    ]
    assert event["extra"]["rows"] == table.num_rows
