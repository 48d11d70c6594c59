"""The `batchmark` command: compares result documents and manages an installation's history."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from batchmark.analysis.judging.significance import ENOUGH_REPEATS
from batchmark.analysis.owners_checks import size_of
from batchmark.analysis.side_by_side import Chosen, NoCommonSuiteError, missing_rows, side_by_side
from batchmark.core import formatting
from batchmark.core.errors import BatchmarkError, CollectError
from batchmark.core.intervals import MINIMUM_SAMPLES
from batchmark.core.output import Parser, drop_output, percent, say
from batchmark.core.prices import load_prices
from batchmark.core.suites import CUSTOM
from batchmark.github.gate import main as pull_request
from batchmark.report.gate import Gate
from batchmark.report.site.compare import Comparison
from batchmark.report.terminal.rows import render_comparison
from batchmark.report.terminal.text import print_text
from batchmark.report.words import extent
from batchmark.runs.document_files import identity, job_label, read_documents, run_of
from batchmark_job.result.document import MeasurementStatus, ResultDocument
from batchmark_job.result.values import BY_HAND

FAILED, BAD_INPUT = 1, 2
LEAST_PERCENT = 5.0  # judgment: equal machines differ from day to day (docs/ci-gate.md)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = list(sys.argv[1:] if argv is None else argv)
    if given[:1] == ["history"]:  # these have parsers of their own
        # boto3 and pyarrow would take a third of the time that a comparison takes.
        from batchmark.history.__main__ import main as history

        return history(given[1:])
    if given[:1] == ["pull-request"]:
        return pull_request(given[1:], main)
    options = _parser().parse_args(given)
    try:
        return _compare(options)
    except (BatchmarkError, OSError) as error:
        say(f"batchmark {options.command}: {error}", error=True)
        return BAD_INPUT


class _Console(Console):
    """A console that survives a closed pipe, so the command can still return its exit code."""

    def on_broken_pipe(self) -> None:
        drop_output()


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="batchmark", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    compare = commands.add_parser(
        "compare",
        help="compare result documents by the same rules as a run's report",
        description="Compare result documents by the same rules as a run's report. Each side "
        "is a document, a folder of repeats, or a target's folder from a run. "
        f"Measuring noise requires at least {ENOUGH_REPEATS} repeats per side; "
        f"{MINIMUM_SAMPLES} or more are recommended.",
    )
    compare.add_argument("baseline", type=Path, help="document or folder to compare with")
    compare.add_argument("new", type=Path, help="document or folder to judge")
    compare.add_argument(
        "--gate",
        action="store_true",
        help="exit with code 1 if a row is missing or clearly slower than the "
        "baseline, or with code 2 if no row could be compared",
    )
    compare.add_argument(
        "--allow-missing",
        action="store_true",
        help="pass the gate even if rows are missing on the new side or have too few repeats there",
    )
    compare.add_argument(
        "--same-machine",
        action="store_true",
        help="pass the gate despite slower rows if the sides ran on different machines, and list "
        "the differences between them",
    )
    compare.add_argument(
        "--require-decided",
        action="store_true",
        help="also fail the gate on undecided rows, whose difference may be just noise",
    )
    compare.add_argument(
        "--least-percent",
        type=percent,
        default=LEAST_PERCENT,
        metavar="P",
        help="ignore slowdowns below P %% (default: %(default)g)",
    )
    compare.add_argument(
        "--markdown", type=Path, metavar="FILE", help="also write the comparison as Markdown"
    )
    commands.add_parser("history", help="show, rebuild, import or export an installation's history")
    commands.add_parser("pull-request", help="report on a pull request (used by action.yml)")
    return parser


def _compare(options: argparse.Namespace) -> int:
    baseline, new = _sides(options.baseline, options.new)
    labels = [side.label for side in (new, baseline)]
    if {new.target, baseline.target} in ({BY_HAND}, {new.run.run_id, baseline.run.run_id}):
        # The target's name says nothing beside the folder's.
        labels = [side.run.run_id for side in (new, baseline)]
    try:
        suites = side_by_side(new, baseline)
    except NoCommonSuiteError:
        if not options.gate:  # the gate names each missing row
            raise
        suites = []
    least = options.least_percent / 100 if options.gate else None
    comparison = Comparison(labels[0], labels[1], suites, new.target == baseline.target, least)
    console = _Console()
    render_comparison(comparison, console)
    gate = _gate(comparison, new, baseline, options) if options.gate else None
    if gate:
        for line in (*gate.reasons, gate.last_line):
            print_text(console, line)
    if options.markdown:
        first = [gate.last_line, *gate.reasons] if gate else []
        options.markdown.write_text(comparison.as_markdown(first))
    if gate is None:
        return 0
    if gate.failed:
        return FAILED
    return 0 if gate.compared else BAD_INPUT


def _sides(*paths: Path) -> list[Chosen]:
    """Read both sides, counting individually measured workloads as rows of the other side's suite.

    Raises:
        CollectError: a side can't be read, or both contain documents of the same job.
    """
    sides = [read_documents(path) for path in paths]
    _refuse_same(*sides)
    named = {document.suite for side in sides for document in side.values()} - {CUSTOM}
    custom = named.pop() if len(named) == 1 else CUSTOM
    return [
        Chosen(run_of(name, side.values(), custom), next(iter(side.values())).target, load_prices())
        for name, side in zip(_names(*paths), sides, strict=True)
    ]


def _refuse_same(
    baseline: Mapping[Path, ResultDocument], new: Mapping[Path, ResultDocument]
) -> None:
    files = {identity(document): file for file, document in baseline.items()}
    same = [file for file, document in new.items() if identity(document) in files]
    if len(same) == len(new) == len(baseline):
        which = "document" if len(same) == 1 else "documents"
        raise CollectError(f"both sides are the same {which}; compare two different measurements")
    if same:
        document = new[same[0]]
        raise CollectError(
            f"{files[identity(document)]} and {same[0]} contain documents from the "
            f"same job, {job_label(document)}; remove the job from one side"
        )


def _names(first: Path, second: Path) -> list[str]:
    """Shorten the sides' paths to the parts that differ; undecodable bytes become '?'."""
    parts = [Path(os.path.abspath(path)).parts for path in (first, second)]
    depths = range(1, max(map(len, parts)))
    depth = next(depth for depth in depths if parts[0][-depth:] != parts[1][-depth:])
    return ["/".join(each[-depth:]).encode(errors="replace").decode() for each in parts]


def _gate(
    comparison: Comparison, new: Chosen, baseline: Chosen, options: argparse.Namespace
) -> Gate:
    missing = missing_rows(new, baseline)
    named = [one.row for one in missing]
    return Gate(
        comparison,
        missing=missing,
        missing_before=sum(one.row not in named for one in missing_rows(baseline, new)),
        measured=f"{_measured(new)} against the baseline's {_measured(baseline)}",
        least_percent=options.least_percent,
        allow_missing=options.allow_missing,
        same_machine=options.same_machine,
        require_decided=options.require_decided,
    )


def _measured(side: Chosen) -> str:
    """Describe a side's contents, so that missing documents don't go unnoticed."""
    documents = [job.document for job in side.run.jobs]
    samples = sum(
        len(row.samples_seconds)
        for document in documents
        for row in document.measurements
        if row.status is MeasurementStatus.MEASURED
    )
    interrupted = sum(document.status == "interrupted" for document in documents)
    ended = f", {interrupted} of them interrupted," if interrupted else ""
    return f"{_repeats(documents)}{ended} with {formatting.count(samples, 'sample')}"


def _repeats(documents: Sequence[ResultDocument]) -> str:
    """Say how many repeats there are, by size for users' own jobs, which measure one size each."""
    own = [row for each in documents if each.own_job for row in each.measurements[:1]]
    sizes = Counter(size_of(row.parameters) for row in own)
    if len(sizes) < 2:
        return formatting.count(len(documents), "repeat")
    return f"{len(documents)} jobs ({extent(sizes.values(), str)} for each of {len(sizes)} sizes)"


if __name__ == "__main__":
    sys.exit(main())
