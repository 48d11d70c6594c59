"""The self-test's tasks."""

from dataclasses import replace
from datetime import UTC, date, datetime
from types import SimpleNamespace

import boto3
import pytest

from batchmark.aws.result_bucket import RunStore
from batchmark.changes.self_test.records import SelfTest
from batchmark.core.names import slug
from batchmark.orchestration.tasks import self_test
from tests.builders.leaks import config
from tests.builders.self_test import Threshold, level_histories
from tests.stand_ins.bucket import MemoryBucket

RUN_ID = "scheduled__2026-12-06T05:00:00+00:00"
KEY = f"self_test/2026-12-06/{slug(RUN_ID)}"


@pytest.fixture
def store(monkeypatch):
    bucket = MemoryBucket(config().bucket, config().region)
    monkeypatch.setattr(boto3, "client", lambda *_, **__: bucket)
    monkeypatch.setattr(self_test, "load_config", config)
    monkeypatch.setattr(self_test, "current_detector", lambda: (Threshold(), "Threshold(0.04)"))
    return RunStore.of(config(), RUN_ID)


@pytest.fixture
def history(monkeypatch):
    """What is read, by call, and what the calls get."""
    calls, kept = [], []

    def read(_config, suites, since):
        calls.append((suites, since))
        return kept

    monkeypatch.setattr(self_test, "read_times", read)
    return SimpleNamespace(calls=calls, kept=kept)


def context(**params):
    resolved = {name: param.resolve() for name, param in self_test.self_test_params().items()}
    dag_run = SimpleNamespace(run_after=datetime(2026, 12, 6, 5, tzinfo=UTC))
    return {"run_id": RUN_ID, "params": resolved | params, "dag_run": dag_run}


def test_figures_of_each_suite_and_page_lie_under_the_day_of_the_run(store, history, capsys):
    history.kept += level_histories("g5.xlarge", series=2)
    history.kept += [
        replace(one, key=one.key.model_copy(update={"suite": "sam"}))
        for one in level_histories("c5.2xlarge", series=1)
    ]
    key = self_test.try_detector(context(steps=2, seed=3))
    assert key == f"{KEY}.json"
    report = SelfTest.model_validate_json(store.read(key))
    assert (report.seed, report.detector) == (3, "Threshold(0.04)")
    assert [(one.suite, one.parts[0].series) for one in report.suites] == [("blog", 2), ("sam", 1)]
    assert self_test.publish_self_test(context(), key) == f"{KEY}.html"
    assert "Self-test of the detector" in store.read(f"{KEY}.html").decode()
    printed = capsys.readouterr().out
    assert "copies of the real history: steps found: " in printed
    assert f"{KEY}.html" in printed


def test_by_default_half_a_year_of_all_suites_is_read_if_there_is_any(store, history, capsys):
    key = self_test.try_detector(context())
    self_test.publish_self_test(context(), key)
    assert "Nothing to test: the history has no series that is long" in capsys.readouterr().out
    self_test.try_detector(context(suites=["sam"], months=1))
    assert history.calls == [(None, date(2026, 6, 6)), (["sam"], date(2026, 11, 5))]
