"""Show, rebuild, import or export the history of all runs."""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any, NoReturn

from botocore.exceptions import BotoCoreError, ClientError

from batchmark.aws.boto_clients import client
from batchmark.core.errors import BatchmarkError, HistoryError
from batchmark.core.formatting import count, shortened_list
from batchmark.core.output import Parser, drop_output, say
from batchmark.core.version import NAMES
from batchmark.history import series
from batchmark.history.columns import ALL_COLUMNS, IMPORTED
from batchmark.history.exports import asv, bencher, csv, pyperf
from batchmark.history.exports.runs import COLUMNS
from batchmark.history.imports.entry import Entry, LeftOut, shown
from batchmark.history.imports.file import FORMATS, READERS, ImportedFile, detect, is_beside_results
from batchmark.history.imports.measurement import Parsed
from batchmark.history.overview import overview
from batchmark.history.rebuild import rebuild
from batchmark.history.rows import Row
from batchmark.history.store import HistoryStore, Selection
from batchmark_job.result.document import Device

MOST_KEYS = 20  # in a message
MOST_BYTES = 2**29  # of a file that is imported
GZIP = b"\x1f\x8b"  # how it begins
MOST_LOSSES = 20  # entries of a file that are named
PLACE_IN_SERIES = ("run_id", *series.MACHINE, *series.POINT)
FIGURES = (*PLACE_IN_SERIES, "raw_key", "median_seconds")
LONG = 100  # steps: from here on, progress is printed
EXPORTS = {"asv": asv.files, "bencher": bencher.files, "pyperf": pyperf.files}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; on failure, print a one-line reason and return 1."""
    options = _parser().parse_args(arguments)
    try:
        options.run(client("s3", options.region), options)
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()
    except (BatchmarkError, BotoCoreError, ClientError, OSError) as error:
        say(f"history {options.command}: {error}", error=True)
        return 1
    return 0


class _Parser(Parser):
    def error(self, message: str) -> NoReturn:
        super().error(f"{message}; see `{self.prog} --help`")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="batchmark history", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    common = _Parser(add_help=False)
    common.add_argument(
        "--bucket",
        required=True,
        help="name of the result bucket, as printed by `terraform output -raw bucket_name` in "
        "terraform/, or by `make up` on a laptop",
    )
    common.add_argument("--region", help="AWS region (default: the one in your AWS configuration)")

    show = commands.add_parser(
        "show",
        parents=[common],
        help="show the latest runs, and compare each row with earlier runs",
    )
    show.add_argument("--suite", action="append", help="include only this suite; may be repeated")
    for name, plain in NAMES.items():
        help_ = f"include only runs with this {plain}"
        show.add_argument(f"--{name.replace('_', '-')}", help=help_)
    show.set_defaults(run=_show)

    again = commands.add_parser(
        "rebuild",
        parents=[common],
        help="rebuild the history from raw documents and imported files",
    )
    again.add_argument(
        "--dry-run", action="store_true", help="only print the changes that would be made"
    )
    again.set_defaults(run=_rebuild)

    add = commands.add_parser(
        "import", parents=[common], help="import other tools' results as the suite `imported`"
    )
    add.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="result files from supported tools; for a folder, all .json files in it",
    )
    add.add_argument(
        "--target",
        type=_name,
        help="name of the machine that was measured (required unless the file names it)",
    )
    add.add_argument(
        "--format", choices=FORMATS, help="file format (default: detected automatically)"
    )
    add.add_argument(
        "--commit", type=_name, help="commit that was measured, for files that don't specify one"
    )
    add.add_argument(
        "--date",
        type=_moment,
        metavar="YYYY-MM-DDTHH:MM:SSZ",
        help="date of the measurement, for files that don't specify one",
    )
    add.add_argument(
        "--device",
        type=Device,
        choices=list(Device),
        default=Device.CPU,
        help="device that was measured (default: %(default)s)",
    )
    add.set_defaults(run=_import)

    out = commands.add_parser(
        "export", parents=[common], help="export the history in another tool's format"
    )
    out.add_argument("--format", choices=("csv", *EXPORTS), required=True)
    out.add_argument(
        "--output",
        required=True,
        type=Path,
        help="output file for CSV, or output folder for the other formats",
    )
    out.add_argument("--suite", action="append", help="include only this suite; may be repeated")
    out.add_argument(
        "--since",
        type=date.fromisoformat,
        metavar="YYYY-MM-DD",
        help="include only rows recorded on or after this day (UTC)",
    )
    out.set_defaults(run=_export)
    return parser


def _rebuild(s3: Any, options: argparse.Namespace) -> None:
    region = options.region or s3.meta.region_name
    result = rebuild(s3, options.bucket, region, dry_run=options.dry_run, progress=_progress)
    would = "would be " if options.dry_run else ""
    say(
        f"{result.sources} runs and imported files: {len(result.written)} files {would}written, "
        f"{result.unchanged} unchanged, {len(result.removed)} {would}removed"
    )
    _print_keys(f"{would}removed, as they belong to no run or import".capitalize(), result.removed)
    _print_keys("Raw documents of uncollected runs, not in the history", result.uncounted)
    if result.unchecked:
        say(
            f"{result.unchecked} raw documents could not be checked for replacement, because the "
            "release that collected them did not store their SHA-256"
        )
    for problem in result.problems:
        say(problem, error=True)


def _progress(steps: Iterable[Any], count: int) -> Iterator[Any]:
    """Yield the steps, printing progress after every tenth of them if there are many."""
    tenth = count // 10 if count >= LONG else count + 1
    for number, step in enumerate(steps, 1):
        yield step
        if number % tenth == 0:
            say(f"{number} of {count} done", error=True)


def _print_keys(title: str, keys: Sequence[str]) -> None:
    if keys:
        say(f"{title}: {len(keys)} ({shortened_list(keys, MOST_KEYS)})")


def _import(s3: Any, options: argparse.Namespace) -> None:
    """Import all files, or none if one is unusable; bad entries within a file are skipped."""
    history = HistoryStore(s3, options.bucket)
    converted, beside = [], []
    for path in _files(options.files):
        text = _text(path)
        if is_beside_results(text, str(path)):
            beside.append(str(path))
            continue
        file = _imported_file(path, text, options)
        parsed = file.parse()
        converted.append((path, file, parsed, file.files(parsed), _summary(path, parsed)))
    if beside:
        say(f"skipped, because these asv files contain no results: {', '.join(beside)}", error=True)
    if not converted:
        raise HistoryError(
            "asv stores its results in other files: import those next to machine.json"
        )
    _refuse_pooling(history, [(path, file, parsed) for path, file, parsed, *_ in converted])
    for _, file, parsed, files, summary in converted:
        history.append_import(file, files)
        say(f"{file.file_name}: {summary}")
        losses = parsed.losses
        for loss in losses[:MOST_LOSSES]:
            say(f"{file.file_name}: {loss}", error=True)
        if more := losses[MOST_LOSSES:]:
            say(f"{file.file_name}: and {len(more)} more", error=True)


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        found = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not found:
            raise HistoryError(
                f"{path} contains no .json files: to import other types of files, list each one"
            )
        yield from found


def _refuse_pooling(
    history: HistoryStore, found: Sequence[tuple[Path, ImportedFile, Parsed]]
) -> None:
    """Reject figures that a series would pool as though they were repeats from the same run.

    Raises:
        HistoryError: a file's figure for a benchmark and run differs from the one in the history
            or in an earlier file.
    """
    new = [(str(path), row) for path, file, parsed in found for row in file.rows(parsed)]
    own = {file.key for _, file, _ in found}
    run_ids = {row["run_id"] for _, row in new}
    figures = defaultdict[tuple[object, ...], dict[float, str]](dict)
    for row in history.read(FIGURES, suites=[IMPORTED], run_ids=run_ids).to_pylist():
        if row["median_seconds"] and row["raw_key"] not in own:
            uri = f"s3://{history.objects.bucket}/{row['raw_key']}"
            figures[_place_in_series(row)][row["median_seconds"]] = uri
    for path, row in new:
        figure, others = row.get("median_seconds"), figures[_place_in_series(row)]
        if figure and others and figure not in others:
            raise HistoryError(
                f"{path} contains a different figure for {shown(row['workload'])} on "
                f"{row['target']} in run {row['run_id']} than "
                f"{shortened_list([*others.values()])}: import it with a different --target, "
                "--commit or --date, or omit it"
            )
        if figure:
            others[figure] = path


def _place_in_series(row: Row) -> tuple[object, ...]:
    return tuple(row.get(name) for name in PLACE_IN_SERIES)


def _summary(path: Path, parsed: Parsed) -> str:
    """Summarise a file's contents.

    Raises:
        HistoryError: the file contains nothing comparable.
    """
    other_units = parsed.left_out.other_units
    figures = [f"{number} in {shown(unit)}" for unit, number in other_units.items()]
    others = shortened_list(figures, MOST_LOSSES)
    if not parsed.measurements:
        problem = "neither a time nor a rate" if others else "nothing to import"
        nothing = "; ".join(filter(None, (others, shortened_list(parsed.losses))))
        raise HistoryError(f"{path} contains {problem}: {nothing or 'no entries'}")
    runs = len({measurement.run_id for measurement in parsed.measurements})
    measured = sum(not one.reason for one in parsed.measurements)
    skipped = sum(one.skipped for one in parsed.measurements)
    parts = [
        f"{count(measured, 'measurement')} of {count(runs, 'run')}",
        f"{skipped} skipped" if skipped else "",
        f"{len(parsed.losses)} lost" if parsed.losses else "",
        f"left out, as they are neither times nor rates: {others}" if others else "",
    ]
    return "; ".join(filter(None, parts))


def _imported_file(path: Path, text: str, options: argparse.Namespace) -> ImportedFile:
    # asv has one in the folder above its machines' folders.
    benchmarks = path.resolve().parent.parent / "benchmarks.json"
    kind = options.format or detect(text, str(path))
    if options.target is None and not READERS[kind].names_its_targets:
        raise HistoryError(
            f"{path} does not name the machine that was measured: specify it, for example with "
            "--target ci-runner"
        )
    return ImportedFile(
        format=kind,
        target=options.target or kind,
        device=options.device,
        file_name=os.fsencode(path.name).decode(errors="replace"),
        text=text,
        benchmarks_text=_text(benchmarks) if kind == "asv" and benchmarks.exists() else None,
        commit=options.commit,
        recorded_at=options.date,
    )


def _name(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise argparse.ArgumentTypeError(
            f"{text!a} is blank or contains unprintable characters: use another value"
        )
    return text


def _moment(text: str) -> datetime:
    try:
        return Entry(text, LeftOut(), path="the date").moment()
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _text(path: Path) -> str:
    """Read a file's text; gzipped files, such as pyperf's `.json.gz`, are decompressed."""
    try:
        with path.open("rb") as file:
            is_packed = file.peek(len(GZIP)).startswith(GZIP)
            body = (gzip.GzipFile(fileobj=file) if is_packed else file).read(MOST_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise HistoryError(f"{path} can't be decompressed: {error}; download it again") from error
    if len(body) > MOST_BYTES:
        raise HistoryError(f"{path} exceeds the limit of {MOST_BYTES / 2**20:.0f} MiB")
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise HistoryError(f"{path} is not UTF-8 text: {error}; save it as UTF-8") from error


def _chosen_suites(history: HistoryStore, options: argparse.Namespace) -> list[str]:
    """Return the requested suites, or all of them if none were requested.

    Raises:
        HistoryError: a suite is unknown, or the history is empty.
    """
    known = history.suites()
    if not known:
        raise HistoryError(
            f"the history in {options.bucket} is empty: no run has been collected yet"
        )
    if unknown := sorted(set(options.suite or ()) - set(known)):
        raise HistoryError(
            f"the history contains no suite {', '.join(unknown)}; it contains {', '.join(known)}"
        )
    return list(options.suite or known)


def _show(s3: Any, options: argparse.Namespace) -> None:
    history = HistoryStore(s3, options.bucket)
    columns = (*series.COLUMNS, *series.VERSION)
    wanted = {name: value for name in NAMES if (value := getattr(options, name))}
    for number, suite in enumerate(_chosen_suites(history, options)):
        if number:
            say("")
        rows = history.read(columns, suites=[suite])
        for name, value in wanted.items():
            rows = series.of_version(rows, name, value)
        if wanted and not rows.num_rows:
            asked = ", ".join(f"{NAMES[name]} {value}" for name, value in wanted.items())
            say(f"suite {suite}: no run has {asked}")
            continue
        for line in overview(suite, rows):
            say(line)
    for key in history.unreadable:
        say(f"skipped {key}, because it can't be read", error=True)


def _export(s3: Any, options: argparse.Namespace) -> None:
    """Export the selected rows.

    Raises:
        HistoryError: a suite is unknown, or the history is empty; nothing is written.
    """
    history = HistoryStore(s3, options.bucket)
    _chosen_suites(history, options)
    chosen: Selection = {"suites": options.suite, "since": options.since}
    if options.format == "csv":
        rows = csv.write(history.tables(ALL_COLUMNS, **chosen), options.output)
        say(f"{options.output}: {rows} rows")
    else:
        files = 0
        for name, content in EXPORTS[options.format](history.read(COLUMNS, **chosen)):
            path = options.output / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(content, indent=1) + "\n")
            files += 1
        say(f"{options.output}: {files} files")
    for key in history.unreadable:
        say(f"skipped {key}, because it can't be read", error=True)


if __name__ == "__main__":
    sys.exit(main())
