"""The environment check, which runs before each benchmark and in the DAG `environment_check`."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from airflow.sdk import Context

from batchmark.aws.result_bucket import ENVIRONMENT_HTML, ENVIRONMENT_JSON, RunStore
from batchmark.core.config import Config
from batchmark.orchestration.publishing import publish_page
from batchmark.orchestration.settings import load_config
from batchmark.orchestration.telling import fail, fail_if_refused

DAG_ID = "environment_check"  # elsewhere a run's own page is another


def check_environment(context: Context, *, shared_too: bool = True) -> str:
    """Check the resources that a run needs, publish the result, and return the page's key.

    Without `shared_too`, targets whose jobs share an instance are checked only if they are named.

    Raises:
        AirflowFailException: a target is unknown, or a check failed (raised after publishing).
    """
    from batchmark.runs.plans.planning import check_targets

    with fail_if_refused(context):
        config = load_config()
        asked = context["params"]["targets"] or []
        targets = check_targets(config, asked, shared_too=shared_too)
    return check(context, config, targets)


def check(
    context: Context,
    config: Config,
    targets: Collection[str],
    *,
    nodes: int = 1,
    foreign: bool = False,
    own_jobs: bool = False,
) -> str:
    """Check the given targets, publish the result, and return the page's key.

    `nodes` is the node count of the largest multi-node job. `foreign` means that others own the
    queues and job definitions, `own_jobs` that our targets use job definitions of users' own jobs.
    """
    from batchmark.aws.boto_clients import patient_clients
    from batchmark.checks.environment import check_environment
    from batchmark.report.pages.table_pages import environment_page

    clients, now = patient_clients(config.region), datetime.now(UTC)
    result = check_environment(
        config, clients, targets=targets, now=now, nodes=nodes, foreign=foreign, own_jobs=own_jobs
    )
    store = RunStore.of(config, context["run_id"])
    store.write(ENVIRONMENT_JSON, result.model_dump_json(indent=2))
    key = publish_page(
        context,
        store,
        store.prefix + ENVIRONMENT_HTML,
        environment_page(result),
        f"Environment: {result.summary}.",
        is_runs=context["ti"].dag_id == DAG_ID,
    )
    if failures := result.failures():
        count = len(result.of("fail"))
        fail(context, f"{count} check(s) failed, so nothing is submitted:\n{failures}")
    return key
