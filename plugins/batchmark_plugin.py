"""Adds Batchmark's pages to Airflow's UI: to the navigation, each DAG and each DAG run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from batchmark.core.names import PAGES

Scope = MutableMapping[str, Any]


async def pages(
    scope: Scope, receive: Callable[[], Awaitable[Scope]], send: Callable[[Scope], Awaitable[None]]
) -> None:
    """Serve the pages, importing the application only on the first request, not with the plugin."""
    from batchmark.orchestration.web.app import application

    await application()(scope, receive, send)


class BatchmarkPlugin(AirflowPlugin):
    name = "batchmark"
    fastapi_apps: ClassVar[list[Any]] = [
        {"app": pages, "url_prefix": PAGES, "name": "Batchmark"},
    ]
    # Addresses are relative, so that they hold behind a proxy, too.
    external_views: ClassVar[list[Any]] = [
        {
            "name": "Batchmark",
            "href": "batchmark/runs",
            "destination": "nav",
            "url_route": "batchmark",
            "nav_top_level": True,
        },
        {
            "name": "Benchmark runs",
            "href": "batchmark/dags/{DAG_ID}",
            "destination": "dag",
            "url_route": "batchmark-runs",
        },
        {
            "name": "Report",
            "href": "batchmark/dag-runs/{DAG_ID}/{RUN_ID}",
            "destination": "dag_run",
            "url_route": "batchmark-report",
        },
    ]
