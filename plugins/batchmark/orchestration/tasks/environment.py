"""The check that comes before each benchmark, and that the DAG `environment_check` is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowFailException

from batchmark.config import load_config
from batchmark.exceptions import BatchmarkError
from batchmark.store import ENVIRONMENT_HTML, ENVIRONMENT_JSON, RunStore

if TYPE_CHECKING:
    from airflow.sdk import Context


def check_environment(context: Context) -> str:
    """Check what the run needs before anything is submitted; return the key of the page.

    Raises:
        AirflowFailException: a target is unknown; or, after publishing, with each failed check.
    """
    from datetime import UTC, datetime

    from rich.console import Console

    from batchmark.batch_environment import aws_clients
    from batchmark.environment_check import check_environment as check
    from batchmark.environment_terminal import check_table
    from batchmark.planning import check_targets

    try:
        config = load_config()
        targets = check_targets(config, context["params"]["targets"], need_both_devices=False)
    except BatchmarkError as error:
        raise AirflowFailException(str(error)) from error  # it would fail again
    result = check(config, aws_clients(config.region), targets=targets, now=datetime.now(UTC))
    store = RunStore.of(config, context["run_id"])
    store.write(ENVIRONMENT_JSON, result.model_dump_json(indent=2))
    console = Console(width=200, record=True)
    console.print(check_table(result))
    key = store.write(ENVIRONMENT_HTML, console.export_html(), "text/html")
    print(f"Environment: {result.summary}. {store.object_url(key)}")
    if failures := result.failures():
        raise AirflowFailException(
            f"{len(result.of('fail'))} check(s) failed, so nothing is submitted:\n{failures}"
        )
    return key
