"""An AWS account, its result bucket and a subscriber, and what tasks are given."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from batchmark import alert_tasks
from batchmark.alerts import settings as alert_settings
from batchmark.alerts.settings import AlertSettings
from batchmark.alerts.store import AlertStore
from batchmark.store import RunStore
from tests.unit.alerts.builders import account, run_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from batchmark.config import Config


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> Iterator[Config]:
    """What Terraform published, in moto's account; the tasks read it."""
    with account(monkeypatch) as config:
        monkeypatch.setattr(alert_tasks, "load_config", lambda: config)
        yield config


@pytest.fixture
def store(published: Config) -> RunStore:
    return RunStore.of(published, run_id(30))


@pytest.fixture
def alerts(store: RunStore) -> AlertStore:
    return AlertStore(store)


@pytest.fixture
def set_up(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the variable batchmark_alerts; at first it is empty."""

    def set_variable(**fields: Any) -> None:
        found = AlertSettings.model_validate(fields)
        monkeypatch.setattr(alert_settings, "load_settings", lambda: found)

    set_variable()
    return set_variable


@pytest.fixture
def context() -> dict[str, Any]:
    dag_run = SimpleNamespace(triggering_user_name="ada")
    return {"run_id": run_id(30), "params": {}, "dag_run": dag_run}
