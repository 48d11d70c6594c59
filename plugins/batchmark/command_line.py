"""Compare result documents, and look after an installation's history."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from batchmark.analysis.judging.significance import ENOUGH_REPEATS
from batchmark.analysis.pairs.compared_rows import Row
from batchmark.analysis.side_by_side import Chosen, side_by_side, verdict
from batchmark.core import formatting, row_values
from batchmark.core.errors import BatchmarkError, CollectError
from batchmark.core.intervals import MINIMUM_SAMPLES
from batchmark.core.output import Parser, drop_output, markdown, say
from batchmark.core.prices import load_prices
from batchmark.core.suites import CUSTOM
from batchmark.history.__main__ import main as history
from batchmark.report.site.compare import Comparison
from batchmark.report.terminal.rows import render_comparison
from batchmark.report.terminal.text import print_text
from batchmark.report.words import row_label
from batchmark.runs.document_files import read_documents, run_of
from batchmark_job.result.document import ResultDocument

SLOWER, BAD_INPUT = 1, 2
BY_HAND = "local"  # target of a job that is run by hand and given none
LEAST_PERCENT = 5.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    given = list(sys.argv[1:] if argv is None else argv)
    if given[:1] == ["history"]:  # it has a parser of its own
        return history(given[1:])
    options = _parser().parse_args(given)
    try:
        return _compare(options)
    except (BatchmarkError, OSError) as error:
        say(f"batchmark {options.command}: {error}", error=True)
        return BAD_INPUT


class _Console(Console):
    """One that lets the command go on, for its exit code, where nobody reads on."""

    def on_broken_pipe(self) -> None:
        drop_output()


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="batchmark", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    compare = commands.add_parser(
        "compare",
        help="compare result documents, by the same rules as a run's report",
        description="Compare result documents, by the same rules as a run's report. Each side is "
        f"a document, or a folder of repeats: from {ENOUGH_REPEATS} on a side, noise is "
        f"measured; use {MINIMUM_SAMPLES} or more.",
    )
    compare.add_argument("baseline", type=Path, help="what to compare with: document or folder")
    compare.add_argument("new", type=Path, help="what is judged: document or folder")
    compare.add_argument(
        "--gate",
        action="store_true",
        help="exit with 1 if a row is surely slower than the baseline, and with 2 if none could "
        "be compared",
    )
    compare.add_argument(
        "--least-percent",
        type=_percent,
        default=LEAST_PERCENT,
        metavar="P",
        help="slow-downs below P %% pass the gate (default: %(default)g)",
    )
    compare.add_argument("--markdown", type=Path, metavar="FILE", help="write a summary, too")
    commands.add_parser("history", help="show, rebuild, import or export an installation's history")
    return parser


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of percent, such as 5")
    return value


def _compare(options: argparse.Namespace) -> int:
    baseline, new = _sides(options.baseline, options.new)
    labels = [side.label for side in (new, baseline)]
    if new.target == baseline.target == BY_HAND:  # says nothing beside the files' names
        labels = [side.run.run_id for side in (new, baseline)]
    comparison = Comparison(labels[0], labels[1], side_by_side(new, baseline))
    console = _Console()
    render_comparison(comparison, console, ("new", "baseline"))
    slower = list(_slower(comparison, options.least_percent / 100))
    gate = _gate(comparison, slower, options.least_percent)
    if options.gate:
        print_text(console, gate)
    if options.markdown:
        text = comparison.as_markdown()
        options.markdown.write_text(f"**{markdown(gate)}**\n\n{text}" if options.gate else text)
    if not options.gate:
        return 0
    if not comparison.rows:
        return BAD_INPUT
    return SLOWER if slower else 0


def _sides(*paths: Path) -> list[Chosen]:
    """Both sides; workloads measured by themselves count as rows of the other side's suite.

    Raises:
        CollectError: a side can't be read, or both hold the same document.
    """
    sides = [read_documents(path) for path in paths]
    _refuse_same(*sides)
    named = {document.suite for documents in sides for document in documents} - {CUSTOM}
    custom = named.pop() if len(named) == 1 else CUSTOM
    return [
        Chosen(run_of(name, documents, custom), documents[0].target, load_prices())
        for name, documents in zip(_names(*paths), sides, strict=True)
    ]


def _refuse_same(baseline: Sequence[ResultDocument], new: Sequence[ResultDocument]) -> None:
    same = [document for document in new if document in baseline]
    if len(same) == len(new) == len(baseline):
        which = "document" if len(same) == 1 else "documents"
        raise CollectError(f"both sides are the same {which}; give those of two measurements")
    if same:
        started_at = f"{same[0].started_at:%Y-%m-%d %H:%M:%S %Z}"
        raise CollectError(
            f"both sides hold the document of the job started at {started_at}; leave it out of one"
        )


def _names(first: Path, second: Path) -> list[str]:
    """The sides' paths from where they differ on."""
    parts = [Path(os.path.abspath(path)).parts for path in (first, second)]
    depths = range(1, max(map(len, parts)))
    depth = next(depth for depth in depths if parts[0][-depth:] != parts[1][-depth:])
    return ["/".join(each[-depth:]) for each in parts]


def _slower(comparison: Comparison, least: float) -> Iterator[Row]:
    """Rows that are surely slower, and by the least share that counts."""
    for row in comparison.rows:
        if verdict(row) == "slower" and 1 / row.speedup.value - 1 >= least:
            yield row


def _gate(comparison: Comparison, slower: Sequence[Row], least_percent: float) -> str:
    rows = len(comparison.rows)
    if not rows:
        return "Gate: nothing was compared."
    limit = f"slower by {least_percent:g} % or more"
    if not slower:
        unknown = len(comparison.not_known_yet)
        if unknown == rows:
            return f"Gate passed, but nothing could be decided: {comparison.next_step}."
        but = f"; {unknown} not known yet" if unknown else ""
        return f"Gate passed: none of {formatting.count(rows, 'row')} is surely {limit}{but}."
    names = (f"{row_label(row)} ({_change(row)})" for row in slower)
    return f"Gate failed: {len(slower)} of {rows} rows {limit}: {'; '.join(names)}."


def _change(row: Row) -> str:
    """Of the row's figure, against the baseline's."""
    return formatting.change(row_values.change(row.parameters, 1 / row.speedup.value - 1))


if __name__ == "__main__":
    sys.exit(main())
