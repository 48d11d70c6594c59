"""Draws charts of series and comparisons, as SVGs for pages or PNGs to download."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import vl_convert

from batchmark.analysis.pairs.answer import Measure
from batchmark.analysis.pairs.compared_rows import Row
from batchmark.analysis.side_by_side import SideBySide
from batchmark.changes.metric import Metric
from batchmark.report.charts import COLOURS, LABELS, chart_style, embedded, ends
from batchmark.report.log_axis import log_ticks
from batchmark.report.site.trends import MARKS, Trend
from batchmark.report.words import row_label

WIDTH = 900
LABEL_WIDTH = 330  # browsers' fonts are wider than the one that is measured here
BAR_HEIGHT = 34  # two lines of a name (TWO_LINES)
TWO_LINES = "[split(datum.label, ' ')[0], slice(datum.label, indexof(datum.label, ' ') + 1)]"
PNG_SCALE = 2.0  # sharp on high-density screens, too
UNITS: dict[Metric, str] = {Metric.PRICE: ", dollars an hour"}
PALE, DARK, INK = "#999999", "#57616c", "#1a1f25"


def series_svg(trend: Trend, width: int = WIDTH) -> str:
    """Draw a series across its runs, with alerts and environment changes marked."""
    values = [
        {"place": place, "run": run.run_id, "day": run.day, "value": run.value, "text": run.text}
        for place, run in enumerate(trend.runs)
    ]
    marks = [
        {"place": mark.place, "kind": MARKS[mark.kind], "text": mark.text} for mark in trend.marks
    ]
    in_seconds = trend.metric == Metric.TIME and not trend.key.is_metric
    axis = alt.X("place:Q", title="runs, oldest first", axis=alt.Axis(tickMinStep=1, labels=False))
    runs = alt.Chart(alt.InlineData(values=values)).encode(
        x=axis,
        y=alt.Y(
            "value:Q",
            title=trend.measures + UNITS.get(trend.metric, ""),
            scale=alt.Scale(zero=False),
            axis=alt.Axis(labelExpr=LABELS[Measure.TIME if in_seconds else Measure.DOLLARS]),
        ),
        description="text:N",
    )
    kinds = list(MARKS.values())
    rules = (
        alt.Chart(alt.InlineData(values=marks))
        .mark_rule(strokeWidth=2)
        .encode(
            x=axis,
            color=alt.Color(
                "kind:N",
                title=None,
                scale=alt.Scale(domain=kinds, range=[COLOURS[1], PALE]),
                legend=alt.Legend(labelLimit=0),
            ),
            strokeDash=alt.StrokeDash(
                "kind:N", title=None, scale=alt.Scale(domain=kinds, range=[[1, 0], [6, 4]])
            ),
            description="text:N",
        )
    )
    layers = [*([rules] if marks else []), runs.mark_line(color=COLOURS[0], opacity=0.5)]
    layers.append(runs.mark_point(color=COLOURS[0], filled=True, size=40))
    chart = alt.layer(*layers).properties(width=width, height=260)
    return embedded(chart)


def comparison_chart(found: SideBySide) -> Any:
    """Chart how many times better the first side is, row by row, with intervals."""
    values = [_bar(row) for row in found.rows]
    names = [value["row"] for value in values]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        y=alt.Y(
            "row:N",
            sort=names,
            title=None,
            axis=alt.Axis(minExtent=LABEL_WIDTH, labelLimit=LABEL_WIDTH, labelExpr=TWO_LINES),
        ),
    )
    scale = alt.Scale(type="log", nice=False, padding=10)
    amounts = [1.0, *(value[end] for value in values for end in ("low", "high"))]
    axis = alt.Axis(format="~g", values=log_ticks(min(amounts), max(amounts)) or alt.Undefined)
    title = "how many times better the first is: above 1, it is ahead"
    bars = base.mark_rule(strokeWidth=5, opacity=0.5, color=COLOURS[0]).encode(
        x=alt.X("low:Q", scale=scale, title=title, axis=axis), x2="high:Q", description="text:N"
    )
    points = base.mark_point(filled=True, size=60, color=COLOURS[0]).encode(
        x=alt.X("ratio:Q", scale=scale, axis=axis), description="text:N"
    )
    one = (
        alt.Chart(alt.InlineData(values=[{"one": 1, "text": "equally fast"}]))
        .mark_rule(color=DARK)
        .encode(x=alt.X("one:Q", scale=scale, axis=axis), description="text:N")
    )
    return alt.layer(one, bars, points).properties(
        width=WIDTH - LABEL_WIDTH, height=BAR_HEIGHT * max(1, len(names))
    )


def png(charts: Sequence[Any]) -> bytes:
    """Render charts as one PNG for pull requests, dark on white whatever the page's colours."""
    style = chart_style(INK) | {"background": "white", "padding": 12}
    styled = alt.vconcat(*charts).configure(**style)
    return bytes(vl_convert.vegalite_to_png(styled.to_dict(), scale=PNG_SCALE))


def _bar(row: Row) -> dict[str, Any]:
    ratio, name = row.speedup.value, row_label(row)
    low, high = ends(row.speedup)
    text = f"{name}: {ratio:.3g}"
    return {"row": name, "ratio": ratio, "low": low, "high": high, "text": text}
