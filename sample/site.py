"""Writes the pages that Batchmark shows inside Airflow as static files that link to each other.

Whatever needs a server is replaced or left out: forms become links to their results, and links to
pages that aren't written, such as documents and logs, are removed.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from html import escape, unescape
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import httpx

from batchmark.core.names import cut_to_length, url_safe
from batchmark.orchestration.web.access import reader
from batchmark.orchestration.web.app import application
from batchmark.orchestration.web.library import Library
from batchmark.report.site.trends import METRICS, series_id
from sample import MADE_UP, NOTICE

FIRST = "/runs"
FIRST_FILE = "index.html"
LONGEST_NAME = 120  # file systems allow 255 bytes, but Windows 260 for a whole path
# Before the address, the address, after it, and the link's content.
LINK = re.compile(r'(<a\b[^>]*?\bhref=")(/[^"#]*)((?:#[^"]*)?"[^>]*>)(.*?)</a>', re.DOTALL)
FORM = re.compile(r"<form\b.*?</form>", re.DOTALL)
# Useless without Airflow; runs older than the listed ones, which have no report here; and the
# published example, whose figures are not made up.
LEFT_OUT = re.compile(
    r'<p>Download as .*?</p>|<section aria-labelledby="others">.*?</section>|'
    r'<a href="/published">[^<]*</a>|'
    r"<p[^>]*>You may read alerts\..*?</p>|"
    r"<tr\b(?:(?!</tr>).)*No report\.(?:(?!</tr>).)*</tr>\s*",
    re.DOTALL,
)
OLDER = re.compile(r"<p><a [^>]*>Older runs</a></p>")
NOT_LISTED = "<p>Older runs are not listed in the sample; alerts and trends lead to them.</p>"
Links = Mapping[str, str]  # addresses by label


class _Reader:
    """A visitor who can see everything and change nothing."""

    name, may_edit, token = "sample", False, ""

    def may_read(self, _: str) -> bool:
        return True


class Site:
    """All pages in a library that can be reached from its runs, comparisons and trends.

    Args:
        comparisons: addresses of comparisons by label.
        drawn: ids of the runs whose reports were written as pages.
    """

    def __init__(self, library: Library, comparisons: Links, drawn: Iterable[str]) -> None:
        self._comparisons = comparisons
        self._drawn = set(drawn)
        # Each takes a fifth of a second, so only series with events are drawn.
        self._series = {
            (series_id(point.series), str(point.metric))
            for change in (
                *(one.change for one in library.alerts.alerts()),
                *(one.change for one in library.alerts.improvements()),
            )
            for point in change.points
        }
        self._trends = {
            suite: {
                text: f"/trends?{urlencode({'suite': suite, 'metric': metric})}"
                for metric, text in METRICS.items()
                if library.series(suite, metric, 1)
            }
            for suite in library.history.suites()
        }
        self._app = application()
        self._app.state.library = lambda: library
        self._app.dependency_overrides[reader] = _Reader

    def write(self, folder: Path) -> Path:
        """Write all pages into an existing folder and return the path of the first one."""
        pages = asyncio.run(self._pages())
        for address, html in pages.items():
            (folder / file_name(address)).write_text(self._rewritten(address, html, pages))
        return folder / FIRST_FILE

    async def _pages(self) -> dict[str, str]:
        """Render all pages and return their HTML by address, in the order they were found."""
        seeds = (FIRST, *self._comparisons.values(), *self._all_trends())
        found: dict[str, str] = {}
        waiting, seen = deque(seeds), set(seeds)
        transport = httpx.ASGITransport(self._app)
        async with httpx.AsyncClient(transport=transport, base_url="http://sample") as client:
            while waiting:
                address = waiting.popleft()
                answer = await client.get(address, headers={"accept": "text/html"})
                answer.raise_for_status()
                found[address] = OLDER.sub(NOT_LISTED, LEFT_OUT.sub("", answer.text))
                links = map(self._same, _links(FORM.sub("", found[address])))
                new = [one for one in links if one not in seen]
                waiting += filter(self._is_shown, dict.fromkeys(new))
                seen.update(new)
        return found

    def _is_shown(self, address: str) -> bool:
        parts = urlsplit(address)
        room, _, rest = parts.path.removeprefix("/").partition("/")
        asked = dict(parse_qsl(parts.query))
        if room == "runs":
            return rest in self._drawn or address == FIRST
        if room == "trends" and rest:
            return (rest, asked["metric"]) in self._series
        if room == "files":
            return parts.path.endswith(".html")
        return room in ("trends", "alerts", "costs", "compare")

    def _all_trends(self) -> Iterator[str]:
        for of_suite in self._trends.values():
            yield from of_suite.values()

    def _rewritten(self, address: str, html: str, pages: Mapping[str, str]) -> str:
        """Add the notice to a page's HTML and turn its links into links to files."""

        def link(found: re.Match[str]) -> str:
            before, at, behind, inner = found.groups()
            target = self._same(unescape(at))
            if target not in pages:
                return inner
            return f"{before}{escape(file_name(target))}{behind}{inner}</a>"

        room = urlsplit(address).path.split("/")[1]
        html = LINK.sub(link, FORM.sub(lambda _: self._choices(room), html))
        html = html.replace("<title>", f"<title>{MADE_UP}. ", 1)
        return html.replace("<body>", f'<body>\n<aside class="notice">{NOTICE}</aside>', 1)

    def _same(self, address: str) -> str:
        """Return where an address redirects to, or the address itself if it doesn't redirect."""
        if address == "/compare":
            return next(iter(self._comparisons.values()))
        if address.startswith("/dag-runs/"):
            return f"/runs/{unquote(address.rpartition('/')[2])}"
        return address

    def _choices(self, room: str) -> str:
        """Return the links that replace a page's form."""
        if room == "compare":
            return _list({"Compared": self._comparisons})
        return _list(self._trends) if room == "trends" else ""


def _list(groups: Mapping[str, Links]) -> str:
    return "\n".join(
        f'<p class="meta">{escape(name)}: '
        + ", ".join(
            f'<a href="{escape(address)}">{escape(text)}</a>' for text, address in links.items()
        )
        + ".</p>"
        for name, links in groups.items()
    )


def _links(html: str) -> Iterator[str]:
    return (unescape(found[2]) for found in LINK.finditer(html))


def file_name(address: str) -> str:
    """Return the file name for an address; all files are in one folder."""
    if address == FIRST:
        return FIRST_FILE
    parts = urlsplit(address)
    name = url_safe(f"{parts.path.removeprefix('/').removesuffix('.html')}-{unquote(parts.query)}")
    return f"{cut_to_length(name, LONGEST_NAME)}.html"
