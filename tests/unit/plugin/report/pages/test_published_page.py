"""The page of the published table: labelled on every view, with its answer and its defects."""

import re
from html import unescape

import pytest

from batchmark.report.page import page_html
from batchmark.report.pages.published_page import published_page


@pytest.fixture(scope="module")
def page():
    return unescape(page_html(published_page()))


def test_every_view_says_that_others_published_it(page):
    views = re.findall(r"<(title|caption|h1|figcaption)[^>]*>([^<]*)", page)
    assert len(views) >= 6
    for kind, text in views:
        assert "published by others" in text.lower(), (kind, text)
    assert "not measured by Batchmark" in page[: page.index("<h1>")]


def test_the_answer_comes_first(page):
    assert "Yes at large sizes." in page
    assert "Of 9 rows published by others, 2 can't be judged; in the other 7, g5.8xlarge" in page
    assert "g5.8xlarge against r5.4xlarge is faster in 5, slower in 0, not known yet in 2" in page
    assert "faster from some size between 1,000 and 5,000 on" in page
    assert '<span class="small">27.2× to 50.0×</span>' in page  # of the rows that are judged
    assert '<span class="small">4.20× to 5.56×</span>' in page  # only rows that are decided
    assert "Size 1,000 is not drawn: the 0.88 s on g5.8xlarge are start-up" in page
    assert "2 to 17 times slower than plain library calls" in page[: page.index('id="sizes"')]


def test_the_dollar_answer_has_the_prices_it_rests_on(page):
    answer = page[: page.index('id="sizes"')]
    assert "ratios are of dollars at $2.448 an hour and $1.008 an hour, CPU / GPU" in answer


def test_defective_rows_are_not_judged_and_the_whole_job_is(page):
    assert page.count(">not judged<") == 4  # the start-up's and the repeated one's, twice each
    total = page[page.index("Total job time") :]
    words = re.findall(r"<span>(faster|slower|cheaper|dearer|not known yet)", total)
    assert words == ["faster", "not known yet"]


def test_every_defect_is_named_with_its_figure(page):
    for figure in (
        "0.88 s",
        "33 to 101×",
        "7.78 s and 1.63 s",
        "5.31",
        "16 vCPUs",
        "44",
        "2 to 17",
    ):
        assert figure in page
