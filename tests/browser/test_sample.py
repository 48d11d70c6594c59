"""The sample installation as files: each page shows something, is labelled, and leads only on."""

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.browser import views
from tests.paths import ROOT

LABEL = "Made-up data"
ROOMS = ("Runs", "Trends", "Compare", "Alerts", "Costs")
LINKS = "all => all.map(one => one.href.baseVal ?? one.href)"


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample") / "pages"
    command = [sys.executable, "-m", "sample", str(folder)]
    # Whatever leads to somebody's Airflow or AWS is not for it.
    elsewhere = {"AIRFLOW_HOME": "/nowhere", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    ran = subprocess.run(
        command, cwd=ROOT, env=os.environ | elsewhere, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout.splitlines()[-1] == str(folder / "index.html")
    return folder


@pytest.fixture
def tab(browser, sample):
    page = browser.new_page()
    page.set_viewport_size(views.WIDE)
    asked = views.strangers(page, "file:")
    page.goto((sample / "index.html").as_uri())
    yield page
    assert asked == []


def test_every_page_is_labelled_fits_and_leads_to_others(tab, sample):
    pages = {path.name for path in sample.iterdir()}
    assert all(name.endswith(".html") for name in pages), "nothing but pages is written"
    reached, waiting = set(), ["index.html"]
    while waiting:
        name = waiting.pop()
        reached.add(name)
        tab.goto((sample / name).as_uri())
        assert tab.title().startswith(f"{LABEL}. Batchmark: ")
        assert tab.locator(".notice").first.inner_text().startswith(LABEL)
        assert len(tab.inner_text("main")) > 100, name
        assert tab.locator("form").count() == 0
        assert views.cut(tab) == [], name
        assert views.lost(tab) == [], name
        links = tab.locator("a[href]").evaluate_all(LINKS)
        inside = [link for link in links if not link.startswith("https://")]
        leads = [Path(unquote(urlsplit(link).path)) for link in map(tab_url(tab), inside)]
        assert {path.parent for path in leads} <= {sample}, name
        assert {path.name for path in leads} <= pages, name
        waiting += {path.name for path in leads} - reached - set(waiting)
    assert reached == pages


def tab_url(tab):
    """Gives the whole address of a link on the tab's page, which an SVG's has not."""
    base = tab.url.rpartition("/")[0]
    return lambda link: link if "://" in link else f"{base}/{link}"


@pytest.mark.parametrize("size", [views.WIDE, views.NARROW], ids=["wide", "narrow"])
def test_somebody_walks_through_all_rooms(tab, size):
    tab.set_viewport_size(size)
    for room in ROOMS:
        tab.locator("nav").get_by_role("link", name=room, exact=True).click()
        assert views.barriers(tab) == [], room
        assert tab.locator("nav [aria-current=page]").inner_text() == room
    tab.emulate_media(media="print")
    assert tab.locator(".notice").first.is_visible()


def test_the_pages_tell_what_happened_in_the_year(tab):
    def room(name):
        tab.locator("nav").get_by_role("link", name=name, exact=True).click()
        return tab.inner_text("main")

    alerts = room("Alerts")
    assert "3 alerts: 1 recovered, 2 open." in alerts
    assert re.search(r"Slower on g5.xlarge: 5 rows together, \+9", alerts)
    assert "driver version 580.95.05 → 590.44.01" in alerts
    assert re.search(
        r"Slower on g5.xlarge and c7i.2xlarge: convert, 6 rows on each .* \+16\s%", alerts
    )
    assert "slower in 2, better in 0, worse in 2 of its metrics since 3f2a91c" in room("Compare")
    assert "2026-11: $" in room("Costs")
    room("Trends")
    tab.locator("p.meta", has_text="blog:").get_by_role("link", name="price").click()
    assert "$0.473" in tab.inner_text("main")
    tab.locator("nav").get_by_role("link", name="Runs").click()
    tab.get_by_role("link", name="suite scaling").click()
    tab.locator("a[href*=scaling]").first.click()
    assert "What if there were more nodes?" in tab.inner_text("h1")
    assert "The model holds" in tab.inner_text("main")
