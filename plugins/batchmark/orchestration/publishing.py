"""A page, from the task that made it to people: in its log, in the bucket, in Airflow."""

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
    """Print a page, store it as HTML, and tell where it is; return its key.

    Args:
        says: what to tell before the address.
        beside: addresses of pages that its sections lead to.
        is_runs: whether it is the page of the run as a whole.
    """
    from batchmark.report.page import page_html
    from batchmark.report.terminal.sections import print_page

    print_page(page, console())
    store.put(key, page_html(page, beside), "text/html")
    tell(f"{says} {page_url(context, store, key, is_runs=is_runs)}")
    return key
