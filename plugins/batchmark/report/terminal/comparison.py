"""Any two sides, row by row, on a terminal of 80 columns."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from batchmark.core import formatting
from batchmark.report.site.compare import Comparison
from batchmark.report.terminal.text import bare_table, print_text
from batchmark.report.words import row_label
from batchmark_job.result.confidence import CONFIDENCE_TEXT

LONGEST_WORKLOAD = len("attention_backward")  # of ours; a narrower column would cut it


def render_comparison(comparison: Comparison, console: Console, names: tuple[str, str]) -> None:
    """`names` are those of the sides, in the heads."""
    print_text(console, comparison.answer)
    for one, rows in comparison.views():
        if one.refused:
            print_text(console, f"{one.suite} is not compared: {one.refused}")
            continue
        table = bare_table()
        table.add_column(f"suite {escape(one.suite)}", min_width=LONGEST_WORKLOAD)
        for heading in (*names, f"speedup\n[{CONFIDENCE_TEXT}]", f"{names[0]} is"):
            table.add_column(escape(heading), justify="right", no_wrap=True)
        for view in rows:
            figures = (view.first, view.second, formatting.factor(view.row.speedup))
            table.add_row(
                escape(view.name),
                *(escape("\n".join(filter(None, figure))) for figure in figures),
                view.word.replace("known ", "known\n"),
            )
        console.print(table)
        for uncompared in one.uncompared:
            print_text(console, f"Not compared: {row_label(uncompared)}: {uncompared.reason}")
    for remark in comparison.remarks:
        print_text(console, remark)
    for name, first, second in comparison.differences:
        print_text(console, f"Differs: {name} {second} \N{RIGHTWARDS ARROW} {first}")
