"""Provides what all pages inside Airflow share: the navigation and the visitor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from batchmark.report.page import page_templates

NAVIGATION = {
    "runs": "Runs",
    "trends": "Trends",
    "compare": "Compare",
    "alerts": "Alerts",
    "costs": "Costs",
    "published": "Example",
}


@dataclass(frozen=True)
class Visit:
    """A request's view of the site: where its pages are, and what the visitor is allowed to do."""

    root: str  # path of all pages, such as /batchmark
    may_edit: bool = False
    token: str = ""  # proves that a form is from one of these pages

    def render(self, template: str, *, current: str, title: str, **values: Any) -> str:
        page = page_templates().get_template(f"site/{template}.html.jinja")
        return page.render(
            visit=self, navigation=NAVIGATION, current=current, title=title, **values
        )

    def message(
        self,
        title: str,
        text: str,
        links: Sequence[tuple[str, str]] = (),
        *,
        current: str = "",
        again_seconds: int | None = None,
    ) -> str:
        """Render a page with one message; it reloads every `again_seconds` unless that is None."""
        return self.render(
            "message",
            current=current,
            title=title,
            text=text,
            links=links,
            again_seconds=again_seconds,
        )

    def within(self, html: str, *, current: str) -> str:
        """Add the navigation to the top of a stored page."""
        bar = page_templates().get_template("site/_navigation.jinja")
        navigation = bar.render(visit=self, navigation=NAVIGATION, current=current)
        return html.replace("<body>", f"<body>\n{navigation}", 1)
