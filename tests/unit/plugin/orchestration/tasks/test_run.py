"""Noise tables on their way from a calibration run into a comparison."""

import json
from datetime import timedelta

import boto3
import pytest
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.execution_time.context import OutletEventAccessors

from batchmark.analysis.comparison import Comparison
from batchmark.analysis.judging.noise import parse_table
from batchmark.aws.result_bucket import NOISE_HTML, NOISE_JSON, PLAN, RunStore, noise_key
from batchmark.core.clusters.file_system_cost import FileSystemWorst
from batchmark.core.failures.endings import Ending
from batchmark.core.run import RunPlan
from batchmark.orchestration.tasks import run
from batchmark.report.scaling.what_if import FILE
from batchmark.runs.collected_runs import store_run
from tests.builders.installations import configured
from tests.builders.runs import build_job, build_lost, build_row, build_run, put_documents
from tests.builders.scaling_runs import Cluster, sweep
from tests.builders.spending import worst_case
from tests.stand_ins.bucket import MemoryBucket

CONTEXT = {"run_id": "calibration"}


@pytest.fixture
def store(monkeypatch):
    config = configured()
    bucket = MemoryBucket(config.bucket, config.region)
    monkeypatch.setattr(boto3, "client", lambda *_, **__: bucket)
    monkeypatch.setattr(run, "load_config", lambda: config)
    return RunStore.of(config, CONTEXT["run_id"])


def jobs():
    return [
        build_job(target, [build_row((level * factor,) * 8)], repeat=repeat)
        for target, level in (("g5.xlarge", 0.5), ("c5.2xlarge", 1.0))
        for repeat, factor in enumerate((1.0, 1.01, 0.99), start=1)
    ]


def in_bfloat16(job):
    rows = (build_row((1.0,) * 8, dtype="bfloat16"),)
    planned = job.planned.model_copy(update={"dtype": "bfloat16"})
    document = job.document.model_copy(update={"measurements": rows})
    return job.model_copy(update={"planned": planned, "document": document})


def collect(store, *collected, lost=()):
    made = build_run(*collected, lost=lost)
    put_documents(store, made)
    return store_run(store, made)


def test_a_calibration_is_used_by_the_next_comparison_but_for_one_of_another_release(store, capsys):
    key = run.publish_noise(CONTEXT, collect(store, *jobs()))
    assert key == store.prefix + NOISE_HTML
    assert b"3 jobs<" in store.read(key)
    assert b'"calibrations"' in store.read(store.prefix + NOISE_JSON)
    assert parse_table(store.read(noise_key("blog", "float32", "g5.xlarge"))).jobs == 3

    single = [job for job in jobs() if job.planned.repeat == 1]
    text = store.read(run.compare(CONTEXT, collect(store, *single)))
    (pair,) = Comparison.model_validate_json(text).pairs
    assert pair.rows[0].noise.source == "calibration"
    key = noise_key("blog", "float32", "g5.xlarge")
    store.put(key, "{}")
    text = store.read(run.compare(CONTEXT, collect(store, *jobs())))
    assert Comparison.model_validate_json(text).pairs[0].rows[0].noise.source == "repeats"
    assert f"Ignoring {key}: not a noise table" in capsys.readouterr().out


def test_a_target_without_a_calibration_fails_the_task_after_publishing(store):
    lost = [build_lost("g6.xlarge", "exit code 3")]
    with pytest.raises(AirflowFailException, match=r"g6\.xlarge has 0 job"):
        run.publish_noise(CONTEXT, collect(store, *jobs(), lost=lost))
    assert store.read(noise_key("blog", "float32", "c5.2xlarge"))


def test_an_older_run_published_again_or_of_another_dtype_replaces_no_table(store, capsys):
    day = timedelta(days=1)
    later = [job.model_copy(update={"stopped_at": job.stopped_at + day}) for job in jobs()]
    run.publish_noise(CONTEXT, collect(store, *later))
    before = store.read(noise_key("blog", "float32", "g5.xlarge"))
    key = run.publish_noise(CONTEXT, collect(store, *jobs()))
    assert store.read(noise_key("blog", "float32", "g5.xlarge")) == before
    text = (
        "Keeping noise/blog/float32/g5.xlarge.json of run scheduled__2026-11-20: its jobs "
        "ended later, at 2026-11-21 09:03."
    )
    for told in (capsys.readouterr().out, store.read(key).decode()):
        assert text in told
    run.publish_noise(CONTEXT, collect(store, *map(in_bfloat16, jobs())))
    assert store.read(noise_key("blog", "float32", "g5.xlarge")) == before
    assert parse_table(store.read(noise_key("blog", "bfloat16", "g5.xlarge"))).dtype == "bfloat16"


@pytest.fixture
def context():
    """Of a run whose tasks make events of assets."""
    return CONTEXT | {"outlet_events": OutletEventAccessors()}


def report_of(store, context, *collected, **fields):
    key = collect(store, *collected, **fields)
    return run.publish_report(context, run.compare(context, key))


def test_a_report_of_all_jobs_updates_its_asset_with_their_times(store, context):
    with pytest.raises(AirflowFailException, match="1 job"):
        report_of(store, context, *jobs(), lost=[build_lost("g6.xlarge", "exit code 3")])
    assert context["outlet_events"][run.REPORT].extra == {}, "one is lost"
    key = report_of(store, context, *(job for job in jobs() if job.planned.repeat == 1))
    told = context["outlet_events"][run.REPORT].extra
    assert (told["report_key"], told["lost_jobs"]) == (key, 0)
    gpu, _ = told["jobs"]
    assert gpu["planned"] == {"target": "g5.xlarge", "suite": "blog", "repeat": 1}
    assert gpu["started_at"] == "2026-11-20T09:01:00Z"
    assert gpu["document"] == {"marks": None}
    json.dumps(told)
    assert store.read_if_there(store.prefix + FILE) is None, "it predicts nothing"


def test_a_run_whose_jobs_failed_alike_says_so_in_a_line(store, context):
    how = "exit code 3 (the command's own error)"
    log = "\nLast 1 lines of log stream a in log group b:\nboom"
    failed = [
        job.model_copy(update={"ending": Ending.of(how, ["boom"]), "failure": f"{how}{log}"})
        for job in jobs()
    ]
    lost = [
        build_lost("g6.xlarge", f"gone{log}"),
        build_lost("g5.xlarge", "not run, as ...", repeat=9).model_copy(update={"not_run": True}),
    ]
    with pytest.raises(AirflowFailException) as raised:
        report_of(store, context, *failed, lost=lost)
    assert str(raised.value) == (
        f"{len(failed) + 1} job(s) failed, 1 not run; the report contains the available "
        f"results: g6.xlarge: gone; g5.xlarge, c5.2xlarge: {how}"
    )


def test_a_report_of_nodes_has_predictions_and_the_price_of_the_planned_file_system(store, context):
    key = report_of(store, context, *sweep(Cluster(), (1, 2, 4)))
    page = store.read(store.prefix + FILE)
    assert b"What if there were more nodes?" in page
    assert FILE.encode() in store.read(key)
    layer = FileSystemWorst(
        kind="SCRATCH_2", storage_gib=672, seconds=3600, usd_per_gb_month=0.14, usd=1.0
    )
    plan = RunPlan(jobs=(), worst_case=worst_case(file_system=layer))
    store.write(PLAN, plan.model_dump_json())
    key = collect(store, *sweep(Cluster(), (1, 2), training={"data": "files"}))
    comparison = Comparison.model_validate_json(store.read(run.compare(CONTEXT, key)))
    (study,) = comparison.studies["scaling"]
    assert study.file_system_usd_per_hour == pytest.approx(0.14)  # 672 GiB in 672 hours
