"""Every block, whoever made it, on the page and on the terminal."""

import html
import typing

import pytest

from batchmark.core import formatting
from batchmark.core.formatting import Figure
from batchmark.core.intervals import Estimate, Interval
from batchmark.report import blocks
from batchmark.report.page import TEMPLATES, page_html
from tests.builders.hostile import STEERING
from tests.builders.reports import printed

EVIL = "<script>alert(1)</script>[/b]\x1b[31m"


def page(text):
    """A page with each block that holds text of its own, and what it must show."""
    made = [
        blocks.Text(f"{text} said", "warning"),
        blocks.Table(f"{text} table", f"{text} caption", ("Heading", text), [("a", text)]),
        blocks.Table("folded", "", ("Wide", text), [(text, "")], folded=True, wide=True),
        blocks.Table("figures", "", ("Hidden", text), [(Figure("1", ""), Figure(text, text))]),
        blocks.Charts(f"{text} charts", [blocks.Chart(f"{text} title", lambda: "<svg></svg>")]),
        blocks.Verdict(f"{text} verdict", f"{text} sentence"),
        blocks.Facts(f"{text} facts", [(f"{text} question", f"{text} answer")]),
        blocks.Remarks([f"{text} remark"]),
        blocks.Lines(f"{text} lines", [(f"{text} which", f"{text} line")], left_out=2),
    ]
    folded = blocks.Folded(f"{text} folded", made)
    return blocks.Page(text, text, f"{text} answer", [folded], [f"{text} warns"], [f"{text} notes"])


def test_each_block_has_a_template():
    names = {block.__name__ for block in typing.get_args(blocks.Block)}
    assert names == {path.stem for path in (TEMPLATES / "blocks").iterdir()}


def test_the_page_and_the_terminal_have_what_blocks_say():
    web, text = html.unescape(page_html(page("Some"))), printed(page("Some"))
    for said in ("said", "table", "caption", "question", "answer", "remark", "which", "line"):
        assert f"Some {said}" in web
        assert f"Some {said}" in text
    for said in ("charts", "title", "verdict", "sentence", "facts", "folded", "warns", "notes"):
        assert f"Some {said}" in web
    assert "2 lines more, not shown." in web
    assert web.index("Some notes") < web.index("Some answer")
    assert text.index("Some notes") < text.index("Some said")


def test_rivals_of_a_column_share_their_last_digit():
    def estimate(value, low, high):
        return Estimate(value=value, interval=Interval(low=low, high=high))

    noisy = estimate(2.04, 1.0, 3.1)
    items = [("a", estimate(1.9, 1.85, 1.95)), ("a", noisy), ("b", noisy), ("b", None)]
    table = blocks.Table.of(
        "",
        "",
        items,
        {"Value": lambda item: blocks.ComparedFigure(item[1], formatting.number, among=item[0])},
    )
    assert [str(figure) for (figure,) in table.rows] == [
        "1.90 [1.85, 1.95]",
        "2.04 [1.00, 3.10]",
        "2.0 [1.0, 3.1]",
        "-",
    ]


@pytest.mark.parametrize(("show", "mark"), [(page_html, "<script>"), (printed, "\x1b")])
def test_texts_stay_text(show, mark):
    assert mark not in show(page(EVIL))


def test_no_text_adds_a_line():
    plain, hostile = (printed(page(text), 10_000) for text in ("Some", STEERING))
    assert len(hostile.splitlines()) == len(plain.splitlines())
