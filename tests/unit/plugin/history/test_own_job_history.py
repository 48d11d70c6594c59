"""An own job over its runs: what became worse opens one alert, with the image as its cause."""

from datetime import timedelta

import pyarrow as pa
import pytest

from batchmark.changes.alerts.merging import merge
from batchmark.changes.alerts.settings import AlertSettings
from batchmark.changes.attribution import group_changes
from batchmark.changes.conditions import run_conditions
from batchmark.changes.detection import DetectorSettings, detect_changes
from batchmark.changes.metric import Metric
from batchmark.history.columns import SCHEMA
from batchmark.history.exports import asv, bencher
from batchmark.history.overview import overview
from batchmark.history.rows import history_rows
from batchmark.history.series import series_histories
from batchmark.report.changes import words as change_words
from tests.builders.history import NOON, finished, run_of
from tests.builders.own_jobs import CPU, GPU, SMALL, SUITE, THROUGHPUT, JobOn
from tests.builders.runs import PRICES, build_run

RUNS = 30
RELEASES = (0, 10, 20)  # the first run of each
JOBS = 3  # of each run
LARGER = 256


def image(run):
    return f"registry.example/thumbnails:1.{sum(run >= first for first in RELEASES) - 1}"


def rows_of_runs(slowdown=1.0, rate=1.0):
    """30 runs on two sides; in the third release the GPU's jobs take and tell other figures."""
    found = []
    for number in range(RUNS):
        at = NOON + timedelta(number)
        moved = {GPU.target: (slowdown, rate)} if number >= RELEASES[-1] else {}
        jobs = [
            finished(_job(side, size, number, repeat, *moved.get(side.target, (1.0, 1.0))), at)
            for side in (GPU, CPU)
            for size in (SMALL, LARGER)
            for repeat in range(1, JOBS + 1)
        ]
        found += history_rows(run_of(*jobs, run_id=f"run-{number:02}"), PRICES)
    return found


def _job(side, size, number, repeat, slowdown, rate):
    truth = JobOn(side.target, start_up=side.start_up, each=side.each, image=image(number))
    plain = truth.job(size, 100 * number + repeat).document.own_job.running_seconds
    seconds = plain * slowdown
    return truth.job(size, repeat, seconds=seconds, told={THROUGHPUT: (size / seconds * rate,)})


def table(rows):
    schema = SCHEMA.append(pa.field("suite", pa.string()))
    return pa.Table.from_pylist(rows, schema=schema)


def opened(rows):
    histories = [one for metric in Metric for one in series_histories(table(rows), metric)]
    points = detect_changes(histories, DetectorSettings())
    measured = [one.key for one in histories if one.metric == "time"]
    changes = group_changes(points, run_conditions(rows), measured=measured)
    newest = {"run_id": f"run-{RUNS - 1}", "at": NOON + timedelta(RUNS)}
    return merge([], [], changes, AlertSettings(), **newest).opened


@pytest.fixture(scope="module")
def slower():
    return rows_of_runs(slowdown=1.15)


def test_a_slower_release_opens_one_alert_whose_cause_is_the_image(slower):
    (alert,) = opened(slower)
    change = alert.change
    assert (change.kind, change.targets) == ("slower", ("g5.xlarge",))
    assert len(change.points) == 4  # time and throughput at both sizes
    assert {point.first_run_id for point in change.points} == {"run-20"}
    assert [(cause.name, cause.before, cause.after) for cause in change.causes] == [
        ("image", image(10), image(20))
    ]
    assert len(change.speedups) == 2
    assert change_words.title(change).startswith("Slower on g5.xlarge: thumbnails, 4 rows, +1")
    assert "a job: $" in " ".join(change_words.cost(change))


def test_a_metric_that_falls_alone_opens_one_alert():
    (alert,) = opened(rows_of_runs(rate=0.8))
    assert [cause.name for cause in alert.change.causes] == ["image"]
    assert all(point.series.is_metric for point in alert.change.points)
    assert change_words.title(alert.change).startswith("Worse on g5.xlarge: thumbnails, 2 rows, −")
    assert any("images/s → " in line for line in change_words.lines(alert.change))


def test_metrics_have_no_speedup_stand_in_the_overview_in_their_unit_and_not_in_asvs_format(slower):
    assert not any(one.key.is_metric for one in series_histories(table(slower), "speedup"))
    assert sum(one.key.is_metric for one in series_histories(table(slower), "time")) == 4
    about = dict(asv.files(table(slower)))["benchmarks.json"]["job-thumbnails.thumbnails"]
    assert set(about["param_names"]) == {"size", "start"}
    text = "\n".join(overview(SUITE, table(slower)))
    assert "thumbnails size 64, start warm, throughput (images/s), g5.xlarge" in text
    assert "images/s" in text.split("throughput (images/s), g5.xlarge")[1].splitlines()[1]
    assert "none" not in text


def test_bencher_gets_a_metric_as_a_measure_of_its_job_and_keeps_those_of_one_name_apart():
    told = {
        ("latency", "ms", "lower"): (3.0,),
        ("latency", "s", "lower"): (0.003,),
        ("speed", "", "higher"): (7.0,),
        ("speed", "", "lower"): (8.0,),
        THROUGHPUT: (9.0,),
    }
    job = GPU.job(told=told)
    _, report = next(iter(bencher.files(table(history_rows(build_run(job), PRICES)))))
    ((name, measures),) = report.items()
    assert name == "job-thumbnails/thumbnails size=64 start=warm"
    assert measures.pop("latency")["value"] == pytest.approx(1e9 * GPU.seconds(SMALL), rel=0.1)
    assert {name: figures["value"] for name, figures in measures.items()} == pytest.approx(
        {
            "latency (ms, lower is better)": 3.0,
            "latency (s, lower is better)": 0.003,
            "speed (higher is better)": 7.0,
            "speed (lower is better)": 8.0,
            "throughput (images/s, higher is better)": 9.0,
        }
    )
