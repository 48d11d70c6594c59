"""Addresses of pages as names of files."""

import re

from sample.site import LINK, file_name


def test_a_page_has_a_file_of_its_own_beside_all_others():
    addresses = [
        "/runs",
        "/runs/made-up__blog__2025-11-24",
        "/trends?suite=blog&metric=time",
        "/trends?suite=blog&metric=price",
        "/trends/0f?suite=blog&metric=time&runs=60",
        "/files/runs/made-up__nodes__2026-11-11/scaling.html",
        f"/compare?a={'x' * 200}&b=1",
        f"/compare?a={'x' * 200}&b=2",
    ]
    names = list(map(file_name, addresses))
    assert names[0] == "index.html"
    assert len(set(names)) == len(addresses)
    assert all(re.fullmatch(r"[\w.-]{1,125}\.html", name) for name in names)


def test_links_are_found_with_their_anchors_and_in_drawings():
    html = (
        '<a class="x" href="/alerts#3b6d">an alert</a><a href="https://example.org">away</a>'
        '<svg><a href="/runs/1" tabindex="-1"><circle/></a></svg>'
    )
    found = [(match[2], match[4]) for match in LINK.finditer(html)]
    assert found == [("/alerts", "an alert"), ("/runs/1", "<circle/>")]
