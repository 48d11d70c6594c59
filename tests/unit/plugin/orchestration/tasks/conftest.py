from types import SimpleNamespace

import pytest

from batchmark.orchestration.tasks import budget, run
from tests.builders.runs import PRICES
from tests.builders.spending import PLANNED_AT
from tests.stand_ins.planning import PlanningAccount, two_targets
from tests.stand_ins.regression_schedule import quiet_history, schedule

__all__ = ["quiet_history", "schedule"]


@pytest.fixture
def cloud(monkeypatch):
    """An account in which it is noon of the day on which runs were planned."""
    monkeypatch.setattr(budget, "datetime", SimpleNamespace(now=lambda _: PLANNED_AT))
    return PlanningAccount(monkeypatch, two_targets(), PRICES, run)
