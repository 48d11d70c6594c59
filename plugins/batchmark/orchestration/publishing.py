"""Publishes a task's page in the task's log, in the bucket and in Airflow."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from airflow.sdk import Context

from batchmark.aws.result_bucket import RunStore
from batchmark.orchestration.links import page_url
from batchmark.orchestration.telling import console, tell

if TYPE_CHECKING:
    from batchmark.report.blocks import Page


def publish_page(
    context: Context,
    store: RunStore,
    key: str,
    page: Page,
    says: str,
    *,
    beside: Mapping[str, str] = MappingProxyType({}),
    is_runs: bool = True,
) -> str:
    """Print a page, store it as HTML, and log its URL; return its key.

    Args:
        says: the text to log before the URL.
        beside: the URLs of pages that the page's sections link to.
        is_runs: whether this is the run's main page.
    """
    from batchmark.report.page import page_html
    from batchmark.report.terminal.sections import print_page

    print_page(page, console())
    store.put(key, page_html(page, beside), "text/html")
    tell(f"{says} {page_url(context, store, key, is_runs=is_runs)}")
    return key
