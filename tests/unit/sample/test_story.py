"""The made-up year as detector and tasks judge it: what it shows is found, and nothing else."""

import json
from datetime import timedelta
from statistics import median

import boto3
import numpy as np
import pytest

from batchmark.changes.alerts.records import Alert
from batchmark.changes.detection import detect_changes
from batchmark.changes.metric import Metric
from batchmark.changes.records import Series, SeriesKey
from batchmark.changes.suspects import weigh, why_unwatchable
from sample import installation, story
from sample.documents import CPU_MODELS, GPU_MODELS

ALL = range(story.WEEKS)


def series(target, values, workload=None, metric=Metric.TIME, **parameters):
    gpu, _ = GPU_MODELS.get(target, (None, 0))
    key = SeriesKey(
        suite="blog",
        target=target,
        actual_device="cuda" if gpu else "cpu",
        instance_type=target,
        cpu_model=CPU_MODELS[target],
        gpu_model=gpu,
        workload=workload,
        parameters=json.dumps(parameters) if workload else None,
        dtype="float32" if workload else None,
    )
    days = [story.day(week).replace(tzinfo=None) for week in range(len(values))]
    recorded = np.array(days, dtype="datetime64[us]")
    return Series(key, metric, list(map(str, range(len(values)))), recorded, np.array(values))


@pytest.fixture(scope="module")
def times():
    """Of the suite, by row and target."""
    found = {}
    for target in story.TARGETS:
        weeks = [dict(story.Job(f"run {week}", week, target, 1).calls()) for week in ALL]
        for row in story.ROWS:
            found[target, row] = series(
                target, [median(week[row]) for week in weeks], row[0], **{row[1]: row[2]}
            )
    return found


@pytest.fixture(scope="module")
def changes(times):
    """By target, the first week and the direction of each change of a row."""
    found = {target: [] for target in story.TARGETS}
    for point in detect_changes(list(times.values())):
        found[point.series.target].append((int(point.first_run_id), point.worse))
    return found


def test_a_driver_got_slower_and_a_build_for_a_while_and_nothing_else_on_their_targets(changes):
    assert story.driver("g5.xlarge", story.DRIVER.since - 1) == story.OLD_DRIVER
    assert story.driver("g5.xlarge", story.DRIVER.since) == story.NEW_DRIVER
    assert changes["g5.xlarge"] == [(story.DRIVER.since, True)] * len(story.ROWS)
    worse, better = story.SLOW_BUILD.since, story.SLOW_BUILD.until
    assert sorted(set(changes["c5.2xlarge"])) == [(worse, True), (better, False)]


def test_a_noisy_neighbour_is_no_change_and_makes_no_series_hard_to_watch(times, changes):
    assert changes["c7i.2xlarge"] == []
    row, week = ("matmul", "size", 2000), story.NOISY.since
    figures = times["c7i.2xlarge", row].values
    assert figures[week] > 1.3 * median(figures)
    fresh = dict(story.Job(f"run {week}", week, "c7i.2xlarge", 2, fresh=True).calls())[row]
    assert median(fresh) == pytest.approx(median(figures), rel=0.03)
    weighed = weigh(list(times.values()), str(story.WEEKS - 1), {})
    assert why_unwatchable(weighed) is None


def test_a_price_fell_and_nothing_got_slower_with_it(changes):
    prices = series(
        "g4dn.xlarge", [story.price("g4dn.xlarge", week) for week in ALL], metric=Metric.PRICE
    )
    (point,) = detect_changes([prices])
    assert (int(point.first_run_id), point.worse) == (story.CHEAPER.since, False)
    assert changes["g4dn.xlarge"] == []


def test_the_own_job_is_slower_since_a_commit_and_since_no_other():
    found = []
    for target in story.JOB_TARGETS:
        for size in story.SIZES:
            values = [
                median(
                    story.Job(f"own {week}", week, target, repeat).seconds(size, cold=False)
                    for repeat in range(1, story.JOB_REPEATS + 1)
                )
                for week in ALL
            ]
            found.append(series(target, values, story.JOB, size=size))
    points = detect_changes(found)
    assert {(int(point.first_run_id), point.worse) for point in points} == {
        (story.COMMIT_WEEK, True)
    }
    assert len(points) == len(found)
    assert story.commit(story.COMMIT_WEEK).startswith("3f2a91c")
    assert story.commit(story.COMMIT_WEEK - 1).startswith("8d41f07")


def test_luck_is_the_same_each_time_and_differs_from_job_to_job():
    job = story.Job("run 7", 7, "g5.xlarge", 1)
    assert dict(job.calls()) == dict(story.Job("run 7", 7, "g5.xlarge", 1).calls())
    assert dict(job.calls()) != dict(story.Job("run 7", 7, "g5.xlarge", 2).calls())
    assert story.day(1) - story.day(0) == timedelta(days=7)


def alerts_of_a_year(monkeypatch) -> list[Alert]:
    sample = installation.Installation()
    monkeypatch.setattr(sample, "_publish", lambda *_: None)
    for due in installation.all_runs():
        sample.measure(due)
    return sample.alerts.alerts()


@pytest.mark.monte_carlo
def test_a_look_in_every_week_tells_the_same(monkeypatch):
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.setenv("AIRFLOW_VAR_BATCHMARK", installation.config().model_dump_json())
    monkeypatch.setattr(installation, "REPORTED_FROM", 52)
    few = alerts_of_a_year(monkeypatch)
    every_week = dict.fromkeys((installation.SUITE_DAG, installation.JOB_DAG), range(52))
    monkeypatch.setattr(installation, "JUDGED", installation.JUDGED | every_week)
    many = alerts_of_a_year(monkeypatch)
    assert [one.state for one in few] == ["recovered", "open", "open"]
    assert [(one.id, one.state) for one in few] == [(one.id, one.state) for one in many]
