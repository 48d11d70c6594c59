"""Every block, whoever made it, on the page and on the terminal; and time over size, drawn."""

import html
import re
import typing

import pytest

from batchmark.analysis.comparison import compare
from batchmark.core import formatting
from batchmark.core.formatting import Figure
from batchmark.core.intervals import Estimate, Interval
from batchmark.report import blocks
from batchmark.report.charts import draw
from batchmark.report.log_axis import log_axis, log_ticks
from batchmark.report.page import TEMPLATES, page_html
from batchmark.report.size_charts import MOST_CHARTS, Point, SizeChart, size_charts
from tests.builders.hostile import STEERING
from tests.builders.pairs import at_sizes
from tests.builders.reports import printed, render_html
from tests.builders.runs import PRICES, build_job, build_row, build_run, noisy

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


GPU, CPU = "g5.xlarge", "c5.2xlarge"


def charts_of(*grid, targets=(GPU, CPU), workload="convolution"):
    rows = [build_row(noisy(0.1), workload=workload, parameters=parameters) for parameters in grid]
    jobs = [build_job(target, rows, repeat=n) for target in targets for n in (1, 2)]
    return size_charts(compare(build_run(*jobs), PRICES).pairs)


def point(seconds):
    return Point(
        Estimate(value=seconds, interval=Interval(low=0.98 * seconds, high=1.02 * seconds))
    )


def texts(svg):
    return [html.unescape(text) for text in re.findall(r"<text [^>]*>([^<]*)</text>", svg)]


def test_the_axis_is_the_one_with_the_most_sizes_and_gpu_targets_come_first():
    grid = [{"size": size, "batch": batch} for size in (64, 128, 256) for batch in (1, 2)]
    charts = charts_of(*grid)
    assert [(chart.title, chart.axis, chart.sizes) for chart in charts] == [
        ("convolution, float32, batch 1", "size", [64, 128, 256]),
        ("convolution, float32, batch 2", "size", [64, 128, 256]),
    ]
    shown = texts(draw(charts[0]))
    assert {"64", "128", "256", "size", "time", GPU, CPU} <= set(shown)
    assert [text for text in shown if re.fullmatch(r"\d+ ms", text)]
    targets = (CPU, "c5.9xlarge", GPU, "g6.xlarge")
    (chart,) = charts_of({"size": 1}, {"size": 2}, targets=targets)
    assert list(chart.targets) == [GPU, "g6.xlarge", CPU, "c5.9xlarge"]


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (6e-4, 2.5e-2, [1e-3, 2e-3, 5e-3, 1e-2, 2e-2]),
        (6e-4, 3, [1e-3, 1e-2, 1e-1, 1]),
        (0.011, 0.04, [0.02, 0.03, 0.04]),  # one label alone says nothing
        (0.011, 0.019, None),
    ],
)
def test_decades_are_the_first_labels_of_a_logarithmic_axis(low, high, ticks):
    assert log_ticks(low, high) == ticks


@pytest.mark.parametrize(("high", "top"), [(2.06, 3), (0.9, 1), (3.1, 5), (60, 70), (71, 100)])
def test_an_axis_ends_close_above_its_highest_figure(high, top):
    end, ticks = log_axis(high / 6, high)
    assert (end, ticks[-1]) == (top, top)


def test_the_decades_stand_among_a_charts_labels():
    estimates = {size: point(seconds) for size, seconds in ((64, 6e-4), (128, 5e-3), (256, 2.2e-2))}
    shown = texts(draw(SizeChart("matmul", "size", {GPU: estimates})))
    assert [text for text in shown if text.endswith("ms")] == [
        "1 ms",
        "2 ms",
        "5 ms",
        "10 ms",
        "20 ms",
        "30 ms",  # at or above the highest figure
    ]


@pytest.mark.parametrize(
    "names",
    [
        (GPU, CPU),
        (CPU, "c5n.18xlarge", "p4d.24xlarge"),
        (CPU, "g4dn.xlarge (ran on the CPU)", "g5.xlarge (ran on the CPU)"),
        ("an-existing-queue-of-the-account",),
    ],
)
def test_a_legend_fits_beside_the_axis_on_a_phone(names):
    svg = draw(
        SizeChart("matmul", "size", {name: {1.0: point(1), 2.0: point(2)} for name in names})
    )
    assert set(names) <= set(texts(svg)), "no name is cut"
    entry = r'translate\(([\d.]+),[\d.]+\)"><path [^>]* d="M0,0h([\d.]+)v12h'
    ends = [sum(map(float, found)) for found in re.findall(entry, svg)]
    assert len(ends) == len(names)
    assert max(ends) < 286


def test_points_and_those_of_first_calls_tell_their_figures_and_the_table_behind_has_the_same():
    (chart,) = charts_of({"size": 1000}, {"size": 2000})
    points = [of[1000.0] for of in chart.targets.values()]
    size, cells = next(chart.rows)
    assert size == "1000"
    assert [cell.time for cell in cells] == [formatting.time(point.seconds) for point in points]
    assert [cell.cold for cell in cells] == [
        "first call " + formatting.seconds(points[0].cold_seconds)
    ] * 2
    assert all("per million calls" in cell.usd for cell in cells)
    titles = re.findall(r"<title>([^<]*)</title>", draw(chart))
    assert any(title.startswith(f"{GPU}, ") and "first call" in title for title in titles)
    without = chart._replace(
        targets={
            name: {size: point._replace(cold_seconds=None) for size, point in of.items()}
            for name, of in chart.targets.items()
        }
    )
    mark = 'aria-roledescription="point"'
    assert draw(chart).count(mark) == 2 * draw(without).count(mark)


def test_dollars_are_drawn_and_named_only_where_there_are_prices(report_of_gpu, report_of_laptop):
    (chart,) = charts_of({"size": 1000}, {"size": 2000})
    assert chart.measures == ["time", "dollars"]
    assert "dollars per million calls" in texts(draw(chart, "dollars"))
    (chart,) = charts_of({"size": 1000}, {"size": 2000}, targets=("g9.unknown", "c9.unknown"))
    assert chart.measures == ["time"]
    assert "Time and dollars over size</h2>" in render_html(report_of_gpu)
    assert "Time over size</h2>" in render_html(report_of_laptop)


def test_a_crossover_is_marked_with_who_stays_ahead():
    jobs = [*at_sizes(GPU, 0.02, 0.021, 0.022), *at_sizes(CPU, 0.002, 0.02, 0.2)]
    (chart,) = size_charts(compare(build_run(*jobs), PRICES).pairs)
    ((size, text),) = chart.crossovers["time"]
    assert 100 < size < 400
    assert text.startswith(f"{GPU} from ")
    assert text in texts(draw(chart))


def test_what_has_one_size_or_none_has_no_chart_and_a_page_has_only_so_many():
    assert charts_of({"size": 64}) == []
    assert charts_of({"kind": "a"}, {"kind": "b"}) == []
    assert charts_of({"size": 0}, {"size": 64}) == []
    kinds = range(MOST_CHARTS + 1)
    grid = [{"size": size, "kind": f"the {kind}."} for kind in kinds for size in (64, 128)]
    assert len(charts_of(*grid)) == MOST_CHARTS


def test_hostile_names_stay_text():
    evil = '"><script>alert(1)</script>&\\x1b'
    targets = (f"g5{evil}", f"c5{evil}")
    (chart,) = charts_of({f"{evil}": 1}, {f"{evil}": 2}, targets=targets, workload=evil)
    svg = draw(chart)
    assert "<script" not in svg
    assert any("<script>alert(1)</script>" in text for text in texts(svg))


def test_it_loads_nothing_and_shares_no_name_with_another(report_of_gpu, report_of_laptop):
    for report in (report_of_gpu, report_of_laptop):
        page = render_html(report, drawn=True)
        charts = re.findall(r'<svg [^>]*class="marks".*?</svg>', page, re.DOTALL)
        assert charts
        for svg in charts:
            assert not re.search(r"url\(|href=|<image|<style| id=", svg)
            assert 'fill="white"' not in svg, "the page's own background"
            assert len(svg) < 60_000
