"""The whole year through the product's tasks."""

import boto3
import pytest

from batchmark.changes.alerts.records import Alert
from sample import installation


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
