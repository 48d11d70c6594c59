"""The page of the published table: labelled, with its answer and its defects."""

import re
from html import unescape

import pytest

from batchmark.report.page import page_html
from batchmark.report.pages.published_page import published_page


@pytest.fixture(scope="module")
def page():
    return unescape(page_html(published_page()))


def test_the_title_and_a_notice_say_that_others_published_it(page):
    body = page[page.index("<body>") :]
    assert "Not measured by Batchmark" in body[: body.index("<h1>")]
    assert "<h1>A table published by others</h1>" in body
    assert body.lower().count("published by others") <= 2


def test_the_answer_comes_first_with_the_prices_it_rests_on(page):
    first = page[: page.index('id="sizes"')]
    assert "Yes at large sizes." in first
    counts = "g5.8xlarge against r5.4xlarge is faster in 5 and cheaper in 5 of the 7 rows that can"
    assert counts in first
    assert '<span class="small">27× to 50×</span>' in first  # of the rows that are judged
    assert '<span class="small">4.2× to 5.6×</span>' in first  # only rows that are decided
    assert "2 to 17 times slower than plain library calls" in first
    assert "ratios are of dollars at $2.448 an hour and $1.008 an hour, CPU / GPU" in first
    assert "Matrix products become faster at some size between 1,000 and 5,000" in page
    assert "Size 1,000 is not drawn: the 0.88 s on g5.8xlarge are start-up" in page


def test_all_ratios_are_rounded_alike(page):
    ratios = [float(ratio) for ratio in re.findall(r"([\d.]+)×", page)]
    assert len(ratios) > 20
    assert [ratio for ratio in ratios if ratio != float(f"{ratio:.2g}")] == []


def test_defective_rows_are_not_judged_and_each_defect_is_named_with_its_figure(page):
    assert page.count(">not judged<") == 4  # the start-up's and the repeated one's, twice each
    total = page[page.index("Total job time") :]
    words = re.findall(r"<span>(faster|slower|cheaper|dearer|not known yet)", total)
    assert words == ["faster", "not known yet"]
    for figure in ("0.88 s", "33 to 100×", "7.78 s and 1.63 s", "5.3", "16 vCPUs", "44", "2 to 17"):
        assert figure in page
