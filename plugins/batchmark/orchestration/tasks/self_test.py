"""The tasks of the DAG `detector_self_test`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import date, timedelta
from functools import partial
from typing import TYPE_CHECKING

from airflow.sdk import Context, Param

from batchmark.aws.result_bucket import RunStore, dated_key
from batchmark.changes.metric import Metric
from batchmark.core.config import Config
from batchmark.core.suites import SUITES
from batchmark.orchestration.publishing import publish_page
from batchmark.orchestration.settings import load_config, load_detector_settings
from batchmark.orchestration.telling import tell

if TYPE_CHECKING:
    from batchmark.changes.records import Series
    from batchmark.changes.self_test.self_test import Detector

DAYS_PER_MONTH = 365.25 / 12


def self_test_params() -> dict[str, Param]:
    """Return the trigger form's fields; scheduled runs use the defaults."""
    return {
        "suites": Param(
            [],
            type="array",
            items={"type": "string"},
            examples=list(SUITES),
            description="Suites to test the detector on; by default, all suites.",
        ),
        "months": Param(
            6,
            type="integer",
            minimum=1,
            maximum=60,
            description="Number of months of history to use, ending today.",
        ),
        "steps": Param(
            20,
            type="integer",
            minimum=1,
            maximum=200,
            description="Number of steps of each size per target. More steps take longer, but "
            "give narrower intervals.",
        ),
        "seed": Param(
            0,
            type="integer",
            minimum=0,
            description="Random seed; the same seed places the same steps.",
        ),
    }


def try_detector(context: Context) -> str:
    """Test the detector on copies of the history with steps inserted; return the results' key."""
    from batchmark.changes.self_test.records import SelfTest
    from batchmark.changes.self_test.self_test import EARLY, WAITED, try_suite

    config, params = load_config(), context["params"]
    today = context["dag_run"].run_after
    since = today - timedelta(days=params["months"] * DAYS_PER_MONTH)
    by_suite: dict[str, list[Series]] = defaultdict(list)
    for history in read_times(config, params["suites"] or None, since.date()):
        by_suite[history.key.suite].append(history)
    detector, settings = current_detector()
    tested = []
    for suite, histories in sorted(by_suite.items()):
        tell(f"Suite {suite}: {len(histories)} series")
        tested.append(
            try_suite(suite, histories, detector, seed=params["seed"], steps=params["steps"])
        )
    report = SelfTest(
        created_at=today,
        months=params["months"],
        seed=params["seed"],
        detector=settings,
        waited=WAITED,
        early=EARLY,
        suites=tuple(tested),
    )
    store = RunStore.of(config, context["run_id"])
    return store.put(_key(context, "json"), report.model_dump_json(indent=2))


def publish_self_test(context: Context, tested_key: str) -> str:
    from batchmark.changes.self_test.records import SelfTest
    from batchmark.report.pages.self_test_page import self_test_page

    store = RunStore.of(load_config(), context["run_id"])
    report = SelfTest.model_validate_json(store.read(tested_key))
    page = self_test_page(report)
    return publish_page(context, store, _key(context, "html"), page, "Self-test:")


def read_times(config: Config, suites: Collection[str] | None, since: date) -> list[Series]:
    """Read every series' times since a given day, either in these suites or, by default, in all."""
    from batchmark.history.series import COLUMNS, series_histories
    from batchmark.history.store import HistoryStore

    table = HistoryStore.of(config).read(COLUMNS, suites=suites, since=since)
    return series_histories(table, Metric.TIME)


def current_detector() -> tuple[Detector, str]:
    """Return the detector as used by benchmark runs, and its settings as text."""
    from batchmark.changes.detection import detect_changes

    settings = load_detector_settings()
    return partial(detect_changes, settings=settings), repr(settings)


def _key(context: Context, ending: str) -> str:
    return dated_key("self_test", context["dag_run"].run_after, context["run_id"], ending)
